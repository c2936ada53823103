// The hidden model behind synthetic clicks. clicks_dataset.h describes it.
#ifndef SHOAL_ML_DATA_CLICKS_MODEL_H_
#define SHOAL_ML_DATA_CLICKS_MODEL_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace shoal {

struct ClicksOptions {
  int64_t examples = 0;
  // The number of the first example. Different numbers give different examples.
  uint64_t first_example = 0;
  // The examples are divided evenly into the days from first_day to last_day, out of `days`.
  uint32_t first_day = 0;
  uint32_t last_day = 0;
  uint32_t days = 1;
  double scale = 1;  // factor for the numbers of ids that the columns of Criteo's data have
  // 0: every column has one id; otherwise every fourth column has 0 to `multi_hot` ids.
  uint32_t multi_hot = 0;
  uint64_t seed = 0;
};

// A column of ids.
struct ClicksColumn {
  uint64_t ids = 0;
  double span = 0;  // 1 - (ids + 1)^(-1/10)
  uint64_t key = 0;
  uint32_t most = 0;  // the longest list; 0: always one id
  float list_scale = 1;
};

// Makes the examples, whose labels it draws with its own probabilities. Immutable and thread-safe.
class ClicksModel {
 public:
  static constexpr int kNumbers = 13;
  static constexpr int kColumns = 26;

  struct Label {
    double probability = 0;  // of a click
    bool is_click = false;   // drawn with this probability
  };

  // The options must be those that MakeClicks accepts.
  explicit ClicksModel(const ClicksOptions& options);

  // Makes the example with this index: fills kNumbers numbers and adds an example to each of the
  // RaggedRows in `columns`, which has kColumns of them or is empty.
  Label Make(int64_t index, float* numbers, absl::Span<void* const> columns) const;
  // Returns the label alone.
  Label LabelOf(int64_t index) const;

 private:
  // An example before its label is drawn.
  struct Drawn {
    double logit = 0;   // without the bias
    double chance = 0;  // the label is a click if this is below the probability
  };

  // Returns the day of an example, as a part of all days.
  double TimeOf(int64_t index) const;
  // Makes the example with this number: its numbers, and its ids if `columns` is not empty.
  Drawn Draw(uint64_t number, double time, float* numbers, absl::Span<void* const> columns) const;
  // Sets the bias so that a quarter of some examples, which are in no split, are clicks.
  void Calibrate();

  const ClicksOptions options_;
  const uint64_t draws_;
  std::array<ClicksColumn, kColumns> columns_;
  std::array<float, kNumbers> number_weights_ = {};
  double bias_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CLICKS_MODEL_H_
