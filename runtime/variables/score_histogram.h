// The area under the receiver operating characteristic (AUC) of a binary classifier, from
// histograms that workers can add up.
//
// The AUC is the probability that a positive example has a higher score than a negative one, where
// equal scores count one half. A histogram counts the positive and the negative examples of each
// bin of scores, so that
//
//   AUC = sum over the bins b of P(b) * (negatives in all bins below b + N(b) / 2) / (P * N)
//
// In this formula P(b) and N(b) are the numbers of positive and negative examples in bin b, P and N
// those of all examples. All of them are integers, so the result does not depend on the order in
// which histograms are added.
//
// Only pairs of a positive and a negative example that share a bin and have different scores are
// counted wrongly, by at most one half each. Therefore the error is at most
//
//   sum over the bins b of P(b) * N(b) / (2 * P * N)
//
// Bins are narrow where scores differ most from each other, near 0 and near 1: each of the 24
// ranges [1/4, 1/2), [1/8, 1/4), ..., [2^-24, 2^-23), [0, 2^-24), and its mirror image at 1, is
// divided into 4096 bins of equal width. On the scale of log(p / (1 - p)) a bin of a score above
// 2^-24 is at most 1/3072 wide. So if the scores of one class are spread over that scale like a
// bell curve with a standard deviation of at least 0.65, no bin has more than 2e-4 of them, and the
// error is below 1e-4 whatever the scores of the other class are. In practice it is far smaller,
// because errors of both signs cancel.
#ifndef SHOAL_RUNTIME_VARIABLES_SCORE_HISTOGRAM_H_
#define SHOAL_RUNTIME_VARIABLES_SCORE_HISTOGRAM_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace shoal {

inline constexpr uint32_t kBinsPerRange = 4096;
inline constexpr uint32_t kScoreRanges = 24;
// Bins 0 to kNumScoreBins / 2 - 1 are for scores below 1/2.
inline constexpr uint32_t kNumScoreBins = 2 * kScoreRanges * kBinsPerRange;

// The bin of scores that are not finite, in a message of a compute program. With such a score the
// AUC has no value.
inline constexpr uint32_t kScoreBinNotFinite = kNumScoreBins;

// Returns the bin of a score in [0, 1].
uint32_t ScoreBin(float score);

struct ScoreCount {
  uint32_t bin = 0;
  uint32_t positives = 0;
  uint32_t negatives = 0;
};

// Returns numerator and denominator of the AUC; the denominator is 0 if a class has no example.
// Entries may be in any order, and bins may repeat.
std::pair<double, double> AreaUnderCurve(std::vector<ScoreCount> histogram);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SCORE_HISTOGRAM_H_
