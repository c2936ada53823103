#include "runtime/variables/score_histogram.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

struct Example {
  float score = 0;
  bool is_positive = false;
};

// The definition: the share of pairs whose positive example has the higher score.
double ExactArea(std::vector<Example> examples) {
  std::sort(examples.begin(), examples.end(),
            [](const Example& a, const Example& b) { return a.score < b.score; });
  double ordered = 0, positives = 0, negatives = 0;
  for (size_t i = 0; i < examples.size();) {
    double positives_here = 0, negatives_here = 0;
    const float score = examples[i].score;
    for (; i < examples.size() && examples[i].score == score; ++i) {
      ++(examples[i].is_positive ? positives_here : negatives_here);
    }
    ordered += positives_here * (negatives + negatives_here / 2);
    positives += positives_here;
    negatives += negatives_here;
  }
  return ordered / (positives * negatives);
}

double HistogramArea(const std::vector<Example>& examples) {
  std::vector<ScoreCount> histogram;
  for (const Example& example : examples) {
    const uint32_t positive = example.is_positive ? 1 : 0;
    histogram.push_back({ScoreBin(example.score), positive, 1 - positive});
  }
  const auto [sum, weight] = AreaUnderCurve(histogram);
  return sum / weight;
}

TEST(ScoreHistogramTest, BinsRiseWithScoresAndStayInRange) {
  EXPECT_EQ(ScoreBin(0), 0u);
  EXPECT_EQ(ScoreBin(1), kNumScoreBins - 1);
  EXPECT_EQ(ScoreBin(-1), 0u);
  EXPECT_EQ(ScoreBin(2), kNumScoreBins - 1);
  EXPECT_EQ(ScoreBin(NAN), 0u);
  EXPECT_EQ(ScoreBin(0.25f), kNumScoreBins / 2 - kBinsPerRange);
  EXPECT_EQ(ScoreBin(std::nextafter(0.5f, 0.0f)), kNumScoreBins / 2 - 1);
  EXPECT_EQ(ScoreBin(0.5f), kNumScoreBins / 2);
  EXPECT_EQ(ScoreBin(0.75f), kNumScoreBins / 2 + kBinsPerRange - 1);
  uint32_t last = 0;
  float score = 1e-40f;
  while (score < 1) {
    const uint32_t bin = ScoreBin(score);
    ASSERT_GE(bin, last) << score;
    ASSERT_LT(bin, kNumScoreBins) << score;
    last = bin;
    score += std::max(1e-40f, score * 1e-3f * std::min(1.0f, 1.01f - score));
  }
}

TEST(ScoreHistogramTest, AreaOfAFewScoresIsExact) {
  const std::vector<Example> examples = {{0.1f, false}, {0.4f, false}, {0.35f, true}, {0.8f, true}};
  EXPECT_EQ(HistogramArea(examples), 0.75);
  EXPECT_EQ(HistogramArea({{0.5f, true}, {0.5f, false}}), 0.5);
  EXPECT_EQ(HistogramArea({{0, true}, {1, false}}), 0);
  EXPECT_EQ(AreaUnderCurve({{7, 3, 0}}).second, 0);
  EXPECT_EQ(AreaUnderCurve({}).second, 0);
}

// The promise: below 1e-4 for scores of the kinds that classifiers give, near 0 and 1 too.
TEST(ScoreHistogramTest, TheErrorIsBelowTheBound) {
  std::mt19937 random(1);
  for (const double rate : {0.5, 0.02}) {
    for (const double middle : {0.0, -6.0, 9.0}) {
      for (const double deviation : {0.65, 2.0}) {
        for (const double distance : {0.1, 1.0, 3.0}) {
          std::vector<Example> examples;
          std::normal_distribution<double> logits(middle, deviation);
          std::bernoulli_distribution positives(rate);
          for (int i = 0; i < 20000; ++i) {
            const bool is_positive = positives(random);
            const double logit = logits(random) + (is_positive ? distance : 0);
            examples.push_back({static_cast<float>(1 / (1 + std::exp(-logit))), is_positive});
          }
          EXPECT_NEAR(HistogramArea(examples), ExactArea(examples), 1e-4)
              << rate << " " << middle << " " << deviation << " " << distance;
        }
      }
    }
  }
}

// Checks the width of bins that the comment of the header states, from which the bound follows.
TEST(ScoreHistogramTest, BinsAreNarrowOnTheScaleOfLogits) {
  const auto logit = [](double p) { return std::log(p) - std::log1p(-p); };
  for (int range = 0; range < 23; ++range) {
    const double low = std::ldexp(1, -range - 2);
    const double width = low / kBinsPerRange;
    EXPECT_LE(logit(low + width) - logit(low), 1.0 / 3072) << range;
    const auto inside = static_cast<float>(low + width / 2);
    EXPECT_EQ(ScoreBin(static_cast<float>(low)), ScoreBin(inside)) << range;
    EXPECT_EQ(ScoreBin(static_cast<float>(low + width)), ScoreBin(inside) + 1) << range;
  }
}

TEST(ScoreHistogramTest, TheSumDoesNotDependOnTheOrder) {
  std::vector<ScoreCount> histogram;
  for (uint32_t i = 0; i < 1000; ++i) histogram.push_back({i * 7919 % 500, i % 3, i % 5});
  const auto first = AreaUnderCurve(histogram);
  std::shuffle(histogram.begin(), histogram.end(), std::mt19937(5));
  EXPECT_EQ(AreaUnderCurve(histogram), first);
}

}  // namespace
}  // namespace shoal
