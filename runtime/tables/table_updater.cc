#include "runtime/tables/table_updater.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "ml/optim/all_finite.h"
#include "ml/optim/rowwise_adagrad.h"
#include "runtime/tables/copy_floats.h"

namespace shoal {
namespace {

constexpr uint32_t kMostDim = 4096;
constexpr uint32_t kMostMinCount = 1 << 30;

absl::Status CheckOptions(const TableOptions& options) {
  const auto refused = [&options](absl::string_view field, absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("table \"", options.name, "\": ", field, ": ", why));
  };
  if (options.dim == 0 || options.dim > kMostDim) {
    return refused("dim", absl::StrCat("must be 1 to ", kMostDim, ", not ", options.dim));
  }
  if (options.min_count > kMostMinCount) {
    return refused("min_count", absl::StrCat("must be at most ", kMostMinCount));
  }
  switch (options.optimizer.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kAdam:
    case OptimizerKind::kFtrl:
      break;
    default:
      return refused("optimizer", "a table can use sgd, adagrad, rowwise_adagrad, adam or ftrl");
  }
  if (options.rowwise && options.optimizer.kind != OptimizerKind::kAdagrad) {
    return refused("rowwise", "only adagrad has a form with one accumulator for a row");
  }
  if (!(options.l2 >= 0) || !std::isfinite(options.l2)) {
    return refused("l2", "must be a number of at least 0");
  }
  if (!(options.clip_by_value >= 0) || !std::isfinite(options.clip_by_value)) {
    return refused("clip_by_value", "must be a number of at least 0");
  }
  const absl::Status initializer = ValidateInitializer(options.initializer);
  if (!initializer.ok()) return refused("initializer", initializer.message());
  return absl::OkStatus();
}

}  // namespace

TableUpdater::Scratch::Scratch(const TableUpdater& updater)
    : gradient_(kBlockRows * updater.dim()),
      value_(kBlockRows * updater.dim()),
      slots_(kBlockRows * updater.dim() * std::max<size_t>(updater.num_slots_, 1)) {}

absl::StatusOr<std::unique_ptr<TableUpdater>> TableUpdater::Create(const TableOptions& options,
                                                                   uint64_t seed) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateRule> rule, UpdateRule::Create(options.optimizer));
  return std::unique_ptr<TableUpdater>(new TableUpdater(options, seed, std::move(rule)));
}

TableUpdater::TableUpdater(const TableOptions& options, uint64_t seed,
                           std::unique_ptr<UpdateRule> rule)
    : options_(options),
      seed_(seed),
      name_hash_(Fingerprint64(options.name)),
      rule_(std::move(rule)),
      num_slots_(options.rowwise ? 0 : rule_->slots().size()),
      row_floats_(options.dim + (options.rowwise ? 1 : num_slots_ * options.dim)) {}

std::vector<std::string> TableUpdater::slot_names() const {
  std::vector<std::string> names;
  for (const SlotSpec& slot : rule_->slots()) names.push_back(slot.name);
  return names;
}

void TableUpdater::FillInitialValue(uint64_t key, float* value) const {
  InitializeRange(options_.initializer, seed_, CombineFingerprints(name_hash_, key), 0, dim(),
                  value);
}

void TableUpdater::FillInitialRow(uint64_t key, float* row) const {
  FillInitialValue(key, row);
  if (options_.rowwise) row[dim()] = rule_->slots()[0].initial_value;
  for (size_t k = 0; k < num_slots_; ++k) {
    std::fill_n(row + (k + 1) * dim(), dim(), rule_->slots()[k].initial_value);
  }
}

// A block is gathered into arrays of values and of each slot, so that one call of the rule, whose
// loops are vectorized and give the same bits everywhere, updates all of its rows.
bool TableUpdater::Apply(const Update& update, const float* gradients,
                         absl::Span<float* const> rows, Scratch* scratch) const {
  const size_t n = rows.size();
  UpdateStep step;
  step.step = update.step;
  step.learning_rate = update.learning_rate;
  step.gradient_scale = update.scale;
  step.gradient = gradients;
  if (options_.l2 > 0 || options_.clip_by_value > 0) {
    const float l2 = static_cast<float>(options_.l2);
    const float bound = options_.clip_by_value > 0 ? static_cast<float>(options_.clip_by_value)
                                                   : std::numeric_limits<float>::infinity();
    for (size_t r = 0; r < n; ++r) {
      for (size_t i = 0; i < dim(); ++i) {
        const float gradient = std::clamp(gradients[r * dim() + i] * update.scale, -bound, bound);
        scratch->gradient_[r * dim() + i] = gradient + l2 * rows[r][i];
      }
    }
    step.gradient = scratch->gradient_.data();
    step.gradient_scale = 1;
  }
  if (options_.rowwise) {
    const auto epsilon = static_cast<float>(options_.optimizer.adagrad_epsilon);
    return ApplyRowwiseAdagrad(
        {step.learning_rate, step.gradient_scale, epsilon, step.gradient, rows.data(), n, dim()});
  }
  float* const values = scratch->value_.data();
  for (size_t r = 0; r < n; ++r) CopyFloats(rows[r], dim(), values + r * dim());
  step.value = values;
  step.new_value = values;
  for (size_t k = 0; k < num_slots_; ++k) {
    float* const slot = scratch->slots_.data() + k * kBlockRows * dim();
    for (size_t r = 0; r < n; ++r) {
      CopyFloats(rows[r] + (k + 1) * dim(), dim(), slot + r * dim());
    }
    step.slots[k] = slot;
    step.new_slots[k] = slot;
  }
  step.n = n * dim();
  rule_->Apply(step);
  bool finite = AllFinite(values, step.n);
  for (size_t k = 0; k < num_slots_; ++k) finite = finite && AllFinite(step.new_slots[k], step.n);
  for (size_t r = 0; r < n; ++r) CopyFloats(values + r * dim(), dim(), rows[r]);
  for (size_t k = 0; k < num_slots_; ++k) {
    for (size_t r = 0; r < n; ++r) {
      CopyFloats(step.new_slots[k] + r * dim(), dim(), rows[r] + (k + 1) * dim());
    }
  }
  return finite;
}

}  // namespace shoal
