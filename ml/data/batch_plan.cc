#include "ml/data/batch_plan.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/random.h"

namespace shoal {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 40;

}  // namespace

absl::StatusOr<BatchPlan> BatchPlan::Create(const BatchPlanOptions& options) {
  const struct {
    const char* field;
    int64_t value;
  } fields[] = {{"number of examples", options.num_examples},
                {"batch_size", options.batch_size},
                {"num_clones", options.num_clones}};
  for (const auto& [field, value] : fields) {
    if (value >= 1 && value <= kMostExamples) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", value, ": it must be in [1, ", kMostExamples, "]"));
  }
  if (options.num_clones > kMostExamples / options.batch_size) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size ", options.batch_size,
                                                   " x num_clones ", options.num_clones,
                                                   " is more than ", kMostExamples));
  }
  return BatchPlan(options);
}

BatchPlan::BatchPlan(const BatchPlanOptions& options)
    : options_(options), batch_examples_(options.batch_size * options.num_clones) {}

int64_t BatchPlan::batches_per_epoch() const {
  return (options_.num_examples + batch_examples_ - 1) / batch_examples_;
}

int64_t BatchPlan::num_examples(int64_t index) const {
  if (index >= batches_per_epoch()) return 0;
  return std::min(batch_examples_, options_.num_examples - first_example(index));
}

void BatchPlan::FillIndices(uint32_t epoch, int64_t index, absl::Span<int64_t> indices) const {
  const int64_t first = first_example(index);
  if (!options_.shuffle) {
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = first + static_cast<int64_t>(i);
    return;
  }
  const Permutation permutation(static_cast<uint64_t>(options_.num_examples), options_.seed, epoch);
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int64_t>(permutation(static_cast<uint64_t>(first) + i));
  }
}

}  // namespace shoal
