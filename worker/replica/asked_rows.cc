#include "worker/replica/asked_rows.h"

#include <algorithm>
#include <utility>

#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

// The index of the keys of one call: a set that is prepared for them is of no batch.
constexpr int64_t kPartOfABatch = -1;

InitializerSpec InitializerOf(const v1::VariableSpec& table) {
  InitializerSpec spec;
  if (table.initializer().kind() != v1::Initializer::KIND_UNSPECIFIED) {
    spec.kind = static_cast<InitializerKind>(table.initializer().kind());
  }
  spec.a = table.initializer().a();
  spec.b = table.initializer().b();
  return spec;
}

}  // namespace

AskedRows::AskedRows(const ReplicaProgram* program, const SliceTable* slices, RowSets* rows)
    : rows_(*rows),
      ahead_(slices, program->lookups()),
      keys_(slices, program->lookups()),
      all_keys_(slices, program->lookups()),
      gradients_(program->lookups().size()) {
  for (const TableLookups& lookup : program->lookups()) {
    dim_.push_back(slices->row_elements_of(lookup.table));
    initializers_.push_back(InitializerOf(program->variables()[lookup.table]));
  }
}

void AskedRows::NameAhead(const BatchKey& batch,
                          absl::Span<const absl::Span<const uint64_t>> keys) {
  ahead_.Take(batch.epoch, static_cast<int64_t>(batch.index), keys);
}

const BatchKeys* AskedRows::KeysAhead(const BatchKey& batch) const {
  const bool is_named =
      ahead_.epoch() == batch.epoch && ahead_.index() == static_cast<int64_t>(batch.index);
  return is_named ? &ahead_ : nullptr;
}

void AskedRows::Begin(const LoadedBatch& batch, uint32_t row_set, Pull pull) {
  epoch_ = batch.epoch;
  index_ = batch.index;
  row_set_ = row_set;
  pull_ = std::move(pull);
  are_gone_ = false;
  has_ahead_ = rows_.IsPreparedFor(row_set, epoch_, index_);
  asked_.clear();
}

void AskedRows::Get(absl::Span<const Request> requests) {
  std::vector<absl::Span<const uint64_t>> keys(dim_.size());
  for (const Request& request : requests) {
    keys[request.lookup] = request.keys;
    asked_.push_back(
        {request.lookup, {request.keys.begin(), request.keys.end()}, request.gradients});
  }
  keys_.Take(epoch_, kPartOfABatch, keys);
  has_ahead_ = has_ahead_ && rows_.FindRows(row_set_, keys_, &places_);
  // This replaces the rows in the set.
  if (!has_ahead_) are_gone_ = are_gone_ || !pull_(keys_);
  for (const Request& request : requests) {
    const size_t dim = dim_[request.lookup];
    if (are_gone_) {
      FillInitialValues(request);
      continue;
    }
    const float* const values = rows_.values(row_set_, request.lookup);
    const std::vector<int32_t>& places = keys_.tables()[request.lookup].places[0];
    for (size_t i = 0; i < request.keys.size(); ++i) {
      auto place = static_cast<size_t>(places[i]);
      if (has_ahead_) place = static_cast<size_t>(places_[request.lookup][place]);
      std::copy_n(values + place * dim, dim, request.values + i * dim);
    }
  }
}

void AskedRows::FillInitialValues(const Request& request) const {
  const size_t dim = dim_[request.lookup];
  for (size_t i = 0; i < request.keys.size(); ++i) {
    // Nothing comes of these values, so they need not be those of the run's seed.
    InitializeRange(initializers_[request.lookup], /*seed=*/0, request.keys[i], 0, dim,
                    request.values + i * dim);
  }
}

std::vector<uint64_t> AskedRows::KeysAskedFor(size_t lookup) const {
  std::vector<uint64_t> keys;
  for (const Asked& asked : asked_) {
    if (asked.lookup == lookup) keys.insert(keys.end(), asked.keys.begin(), asked.keys.end());
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void AskedRows::AddGradients(const Asked& asked, const std::vector<uint64_t>& rising) {
  const size_t dim = dim_[asked.lookup];
  const std::vector<int32_t>& places = all_keys_.tables()[asked.lookup].places[0];
  for (size_t i = 0; i < asked.keys.size(); ++i) {
    const auto at = std::lower_bound(rising.begin(), rising.end(), asked.keys[i]) - rising.begin();
    float* const sum = gradients_[asked.lookup].data() +
                       static_cast<size_t>(places[static_cast<size_t>(at)]) * dim;
    for (size_t k = 0; k < dim; ++k) sum[k] += asked.gradients[i * dim + k];
  }
}

void AskedRows::Collect() {
  std::vector<std::vector<uint64_t>> rising;
  std::vector<absl::Span<const uint64_t>> keys;
  for (size_t t = 0; t < dim_.size(); ++t) rising.push_back(KeysAskedFor(t));
  for (size_t t = 0; t < dim_.size(); ++t) {
    keys.push_back(rising[t]);
    gradients_[t].assign(rising[t].size() * dim_[t], 0.0f);
  }
  all_keys_.Take(epoch_, index_, keys);
  for (const Asked& asked : asked_) {
    if (asked.gradients != nullptr) AddGradients(asked, rising[asked.lookup]);
  }
}

}  // namespace shoal
