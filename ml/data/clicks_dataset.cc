#include "ml/data/clicks_dataset.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/hash.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr int64_t kMostJudged = 1000000;

class ClicksDataset final : public Dataset {
 public:
  explicit ClicksDataset(const ClicksOptions& options) : options_(options), model_(options) {
    fields_.push_back({kInputField, {DataType::kFloat32, {ClicksModel::kNumbers}}});
    for (int c = 1; c <= ClicksModel::kColumns; ++c) {
      fields_.push_back(RaggedField(absl::StrCat("c", c)));
    }
    fields_.push_back({kLabelField, {DataType::kInt32, {}}});
  }

  int64_t size() const override { return options_.examples; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  int64_t num_classes() const override { return 2; }

  uint64_t fingerprint() const override {
    return Fingerprint64(absl::StrFormat("clicks 2 %d %d %d %d %d %a %d %d", options_.examples,
                                         options_.first_example, options_.first_day,
                                         options_.last_day, options_.days, options_.scale,
                                         options_.multi_hot, options_.seed));
  }

  std::string notice() const override;

  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    float* numbers = static_cast<float*>(outputs[0]);
    int32_t* labels = static_cast<int32_t*>(outputs[ClicksModel::kColumns + 1]);
    const absl::Span<void* const> columns = outputs.subspan(1, ClicksModel::kColumns);
    for (const int64_t index : indices) {
      *labels++ = model_.Make(index, numbers, columns).is_click ? 1 : 0;
      numbers += ClicksModel::kNumbers;
    }
    return absl::OkStatus();
  }

 private:
  const ClicksOptions options_;
  const ClicksModel model_;
  std::vector<FieldSpec> fields_;
};

std::string ClicksDataset::notice() const {
  std::vector<std::pair<double, bool>> judged;  // probability, is a click
  double log_loss = 0;
  for (int64_t i = 0; i < std::min(options_.examples, kMostJudged); ++i) {
    const auto [p, click] = model_.LabelOf(i);
    judged.emplace_back(p, click);
    log_loss -= std::log(click ? p : 1 - p);
  }
  std::sort(judged.begin(), judged.end());
  // The pairs of a click and another example in which the click has the higher probability. Equal
  // probabilities of two examples are too rare to matter.
  double clicks = 0, others = 0, pairs = 0;
  for (const auto& [p, click] : judged) {
    if (click) pairs += others;
    (click ? clicks : others) += 1;
  }
  const auto count = static_cast<double>(judged.size());
  return absl::StrFormat(
      "data: the best possible AUC on the %d test examples is %.5f and the best log loss %.5f, "
      "those of the probabilities from which the labels are drawn; %.1f %% are clicks",
      judged.size(), clicks * others > 0 ? pairs / clicks / others : 0.0, log_loss / count,
      100 * clicks / count);
}

absl::Status CheckRange(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": is ", value, "; it must be from ", least, " to ", most));
}

absl::Status CheckOptions(const ClicksOptions& options) {
  RETURN_IF_ERROR(CheckRange("data.clicks.scale", options.scale, 1e-9, kLargestClicksScale));
  RETURN_IF_ERROR(CheckRange("data.clicks.days", options.days, 1, kMostClicksDays));
  RETURN_IF_ERROR(CheckRange("data.clicks.multi_hot", options.multi_hot, 0, kMostClicksIds));
  return CheckRange("data.train_examples and data.test_examples",
                    static_cast<double>(options.examples), 1, 1e12);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeClicks(const ClicksOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return {std::make_unique<ClicksDataset>(options)};
}

}  // namespace shoal
