#include "runtime/variables/score_histogram.h"

#include <algorithm>
#include <cmath>

namespace shoal {
namespace {

constexpr uint32_t kBinsPerHalf = kScoreRanges * kBinsPerRange;

// `score` is in [0, 1/2].
uint32_t BinInLowerHalf(double score) {
  constexpr double kEndOfLowestRange = 1.0 / (1 << kScoreRanges);
  if (score < kEndOfLowestRange) {
    return static_cast<uint32_t>(score / kEndOfLowestRange * kBinsPerRange);
  }
  int exponent = 0;
  const double mantissa = std::frexp(score, &exponent);  // It is in [1/2, 1).
  const int range = -1 - exponent;                       // 0 is [1/4, 1/2).
  if (range < 0) return kBinsPerHalf - 1;
  const auto place = static_cast<uint32_t>((2 * mantissa - 1) * kBinsPerRange);
  return (kScoreRanges - 1 - static_cast<uint32_t>(range)) * kBinsPerRange + place;
}

}  // namespace

uint32_t ScoreBin(float score) {
  const double exact = score;
  if (!(exact > 0)) return 0;
  if (exact < 0.5) return BinInLowerHalf(exact);
  return kNumScoreBins - 1 - BinInLowerHalf(std::max(0.0, 1 - exact));
}

std::pair<double, double> AreaUnderCurve(std::vector<ScoreCount> histogram) {
  std::sort(histogram.begin(), histogram.end(),
            [](const ScoreCount& a, const ScoreCount& b) { return a.bin < b.bin; });
  uint64_t positives = 0, negatives = 0;
  double ordered = 0;
  for (size_t i = 0; i < histogram.size();) {
    const uint32_t bin = histogram[i].bin;
    uint64_t positives_here = 0, negatives_here = 0;
    for (; i < histogram.size() && histogram[i].bin == bin; ++i) {
      positives_here += histogram[i].positives;
      negatives_here += histogram[i].negatives;
    }
    ordered += static_cast<double>(positives_here) *
               (static_cast<double>(negatives) + static_cast<double>(negatives_here) / 2);
    positives += positives_here;
    negatives += negatives_here;
  }
  return {ordered, static_cast<double>(positives) * static_cast<double>(negatives)};
}

}  // namespace shoal
