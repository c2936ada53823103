#include "ml/data/clicks_dataset.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/hash.h"
#include "base/status_matchers.h"
#include "ml/data/clicks_model.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kColumns = 26;

ClicksOptions Options(int64_t examples = 20000) {
  ClicksOptions options;
  options.examples = examples;
  options.days = 4;
  options.last_day = 3;
  options.scale = 0.01;
  options.seed = 5;
  return options;
}

// The examples that a batch has.
struct Batch {
  std::vector<float> numbers;
  std::vector<RaggedRows> columns = std::vector<RaggedRows>(kColumns);
  std::vector<int32_t> labels;
};

Batch Read(const Dataset& dataset, const std::vector<int64_t>& indices) {
  Batch batch;
  batch.numbers.resize(13 * indices.size());
  batch.labels.resize(indices.size());
  std::vector<void*> outputs = {batch.numbers.data()};
  for (RaggedRows& column : batch.columns) outputs.push_back(&column);
  outputs.push_back(batch.labels.data());
  EXPECT_OK(dataset.FillBatch(0, indices, outputs));
  return batch;
}

Batch ReadFirst(const Dataset& dataset, int64_t examples) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < examples; ++i) indices.push_back(i);
  return Read(dataset, indices);
}

double NumberAfter(const std::string& text, const std::string& before) {
  const std::vector<std::string> parts = absl::StrSplit(text, before);
  const std::vector<std::string> words = absl::StrSplit(parts.at(1), absl::ByAnyChar(" ,;"));
  double number = 0;
  EXPECT_TRUE(absl::SimpleAtod(words[0], &number)) << text;
  return number;
}

// Returns the hidden model's probability of a click in each example.
std::vector<double> ProbabilitiesOf(const ClicksOptions& options) {
  const ClicksModel model(options);
  std::vector<double> probabilities;
  for (int64_t i = 0; i < options.examples; ++i) {
    probabilities.push_back(model.LabelOf(i).probability);
  }
  return probabilities;
}

TEST(ClicksDatasetTest, HasNumbersColumnsOfIdsAndALabel) {
  const auto dataset = MakeClicks(Options()).value();
  ASSERT_EQ(dataset->fields().size(), 28u);
  EXPECT_EQ(dataset->fields()[0].name, kInputField);
  EXPECT_EQ(dataset->fields()[0].example.shape, Shape({13}));
  EXPECT_EQ(dataset->fields()[1].name, "c1");
  EXPECT_TRUE(dataset->fields()[26].is_ragged());
  EXPECT_TRUE(IsTarget(dataset->fields()[27]));
  EXPECT_EQ(dataset->num_classes(), 2);
}

TEST(ClicksDatasetTest, AnExampleIsAFunctionOfItsIndex) {
  const auto dataset = MakeClicks(Options()).value();
  const Batch together = Read(*dataset, {7, 19999, 7, 0});
  const Batch alone = Read(*dataset, {19999});
  EXPECT_EQ(together.labels[1], alone.labels[0]);
  EXPECT_TRUE(
      std::equal(alone.numbers.begin(), alone.numbers.end(), together.numbers.begin() + 13));
  for (size_t c = 0; c < kColumns; ++c) {
    EXPECT_EQ(together.columns[c].keys_of(1), alone.columns[c].keys_of(0));
    EXPECT_EQ(together.columns[c].keys_of(0), together.columns[c].keys_of(2));
  }
}

// The bytes of examples must be the same on every machine and in every version.
TEST(ClicksDatasetTest, ExamplesHaveTheBytesThatTheyAlwaysHad) {
  ClicksOptions options = Options(1000);
  options.multi_hot = 3;
  const Batch batch = ReadFirst(*MakeClicks(options).value(), 1000);
  const auto hash = [](const auto& values) {
    return Fingerprint64(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])});
  };
  uint64_t all = CombineFingerprints(hash(batch.numbers), hash(batch.labels));
  for (const RaggedRows& column : batch.columns) {
    all = CombineFingerprints(all, hash(column.keys()));
    all = CombineFingerprints(all, hash(column.offsets()));
  }
  EXPECT_EQ(all, 7556886844956111690u);
}

TEST(ClicksDatasetTest, IdsFollowTheCardinalitiesAndAreZipfDistributed) {
  const Batch batch = ReadFirst(*MakeClicks(Options()).value(), 20000);
  const auto largest = [&](size_t column) {
    const auto keys = batch.columns[column].keys();
    return *std::max_element(keys.begin(), keys.end());
  };
  EXPECT_LT(largest(0), 14);
  EXPECT_LT(largest(2), 101312);
  EXPECT_GT(largest(2), 50000);
  EXPECT_EQ(largest(8), 1) << "at least two ids";
  const auto keys = batch.columns[2].keys();
  ASSERT_EQ(keys.size(), 20000u);
  const auto share = [&](int64_t below) {
    return static_cast<double>(
               std::count_if(keys.begin(), keys.end(), [&](int64_t key) { return key < below; })) /
           static_cast<double>(keys.size());
  };
  // 1 - k^-0.1 over 1 - 101312^-0.1, by the distribution's integral.
  EXPECT_NEAR(share(1), 0.0980, 0.01);
  EXPECT_NEAR(share(1023), 0.7317, 0.015);
}

TEST(ClicksDatasetTest, IdsBecomeMoreOrLessFrequentFromDayToDay) {
  const Batch batch = ReadFirst(*MakeClicks(Options(80000)).value(), 80000);
  const auto count = [&](int64_t day, int64_t id) {
    const auto keys = batch.columns[2].keys().subspan(static_cast<size_t>(day * 20000), 20000);
    return std::count(keys.begin(), keys.end(), id);
  };
  EXPECT_NEAR(static_cast<double>(count(0, 0)), static_cast<double>(count(2, 0)), 200)
      << "the first id is alone in its octave";
  EXPECT_GT(count(0, 1), 1.25 * static_cast<double>(count(2, 1)));
  EXPECT_GT(count(2, 2), 1.25 * static_cast<double>(count(0, 2)));
}

TEST(ClicksDatasetTest, WithMultiHotEveryFourthColumnIsAList) {
  ClicksOptions options = Options();
  options.multi_hot = 3;
  const Batch batch = ReadFirst(*MakeClicks(options).value(), 2000);
  EXPECT_EQ(batch.columns[0].keys().size(), 2000u);
  EXPECT_NEAR(static_cast<double>(batch.columns[3].keys().size()), 3000, 200);
  std::vector<int> lengths(4);
  for (int64_t i = 0; i < 2000; ++i) ++lengths.at(batch.columns[7].keys_of(i).size());
  for (const int length : lengths) EXPECT_NEAR(length, 500, 120);
}

TEST(ClicksDatasetTest, TheNoticeHasTheBestResults) {
  const std::string notice = MakeClicks(Options(100000)).value()->notice();
  EXPECT_NEAR(NumberAfter(notice, "AUC on the 100000 test examples is "), 0.87, 0.03) << notice;
  EXPECT_NEAR(NumberAfter(notice, "best log loss "), 0.38, 0.03) << notice;
  EXPECT_NEAR(NumberAfter(notice, "are drawn; "), 25, 2) << notice;
}

// The definition of the AUC: the share of the pairs of a click and another example in which the
// click has the higher probability.
TEST(ClicksDatasetTest, TheBestAucIsTheShareOfPairsInTheRightOrder) {
  const ClicksOptions options = Options(3000);
  const auto dataset = MakeClicks(options).value();
  const std::vector<int32_t> labels = ReadFirst(*dataset, options.examples).labels;
  const std::vector<double> p = ProbabilitiesOf(options);
  ASSERT_EQ(p.size(), labels.size());
  double pairs = 0, right = 0, log_loss = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    log_loss -= std::log(labels[i] == 1 ? p[i] : 1 - p[i]) / 3000;
    for (size_t j = 0; j < p.size(); ++j) {
      if (labels[i] == 0 || labels[j] == 1) continue;
      pairs += 1;
      right += p[i] > p[j] ? 1 : 0;
    }
  }
  EXPECT_NEAR(NumberAfter(dataset->notice(), "examples is "), right / pairs, 1.1e-5);
  EXPECT_NEAR(NumberAfter(dataset->notice(), "best log loss "), log_loss, 1.1e-5);
}

// A second way to the best AUC, which does not use the labels: each example counts as a click with
// its probability.
TEST(ClicksDatasetTest, TheBestAucIsThatExpectedOfTheProbabilities) {
  const ClicksOptions options = Options(200000);
  std::vector<double> p = ProbabilitiesOf(options);
  std::sort(p.begin(), p.end());
  double clicks = 0, others = 0, pairs = 0;
  for (const double chance : p) {
    pairs += chance * others;
    clicks += chance;
    others += 1 - chance;
  }
  // The standard deviation over the labels is about 1e-3.
  EXPECT_NEAR(NumberAfter(MakeClicks(options).value()->notice(), "examples is "),
              pairs / clicks / others, 4e-3);
}

TEST(ClicksDatasetTest, LabelsAreDrawnWithTheProbabilities) {
  const ClicksOptions options = Options(100000);
  const std::vector<int32_t> labels =
      ReadFirst(*MakeClicks(options).value(), options.examples).labels;
  const std::vector<double> p = ProbabilitiesOf(options);
  struct Bin {
    double examples = 0, expected = 0, clicks = 0, variance = 0;
  };
  std::vector<Bin> bins(10);
  for (size_t i = 0; i < p.size(); ++i) {
    Bin& bin = bins.at(static_cast<size_t>(p[i] * 10));
    bin.examples += 1;
    bin.expected += p[i];
    bin.variance += p[i] * (1 - p[i]);
    bin.clicks += labels[i];
  }
  for (const Bin& bin : bins) {
    EXPECT_GT(bin.examples, 500);
    EXPECT_NEAR(bin.clicks, bin.expected, 4 * std::sqrt(bin.variance));
  }
}

TEST(ClicksDatasetTest, FingerprintsTellDataApart) {
  const uint64_t one = MakeClicks(Options()).value()->fingerprint();
  EXPECT_EQ(MakeClicks(Options()).value()->fingerprint(), one);
  ClicksOptions other = Options();
  other.first_example = 20000;
  EXPECT_NE(MakeClicks(other).value()->fingerprint(), one);
  EXPECT_NE(Read(*MakeClicks(other).value(), {0}).numbers,
            Read(*MakeClicks(Options()).value(), {0}).numbers);
  other = Options();
  other.scale = 0.02;
  EXPECT_NE(MakeClicks(other).value()->fingerprint(), one);
}

TEST(ClicksDatasetTest, OptionsOutOfRangeAreNamed) {
  ClicksOptions options = Options();
  options.scale = -1;
  EXPECT_THAT(MakeClicks(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.clicks.scale: is -1")));
  options = Options();
  options.multi_hot = 1001;
  EXPECT_THAT(MakeClicks(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.clicks.multi_hot")));
  options = Options(0);
  EXPECT_THAT(MakeClicks(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.train_examples")));
}

}  // namespace
}  // namespace shoal
