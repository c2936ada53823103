#include "tests/simulation/table_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "ml/optim/gradient_clipping.h"
#include "runtime/variables/table_settings.h"
#include "runtime/variables/update_rules.h"

namespace shoal {
namespace {

// If a row's sum lacks more batches than this, only their number is checked.
constexpr size_t kMostLeftOut = 3;

std::string TextOf(const std::vector<BatchKey>& batches) {
  return absl::StrJoin(batches, " ", [](std::string* out, const BatchKey& batch) {
    absl::StrAppend(out, batch.epoch, "/", batch.index);
  });
}

// Returns whether the numbers become 0 when some `count` of the batches are subtracted from them,
// of those that do not come before `first`.
bool AreSumOf(std::vector<float> numbers, uint64_t key, const std::vector<BatchKey>& batches,
              size_t first, size_t count) {
  if (count == 0) {
    return std::all_of(numbers.begin(), numbers.end(), [](float x) { return x == 0; });
  }
  for (size_t i = first; i + count <= batches.size(); ++i) {
    std::vector<float> rest = numbers;
    for (size_t e = 0; e < rest.size(); ++e) {
      rest[e] -= SimulatedTables::CountedGradient(batches[i], key, e);
    }
    if (AreSumOf(std::move(rest), key, batches, i + 1, count - 1)) return true;
  }
  return false;
}

// Says what is wrong with the value of a row that counts `counted` of the batches that have touched
// it.
std::string CheckValue(uint64_t key, const float* value, size_t dim,
                       const std::vector<BatchKey>& batches, size_t counted) {
  if (counted > batches.size() || value[0] != -static_cast<float>(counted)) {
    return absl::StrCat("the row of key ", key, " counts ", -value[0], " batches instead of ",
                        counted, " of ", TextOf(batches));
  }
  std::vector<float> taken(dim), left(dim);
  for (size_t e = 0; e < dim; ++e) {
    taken[e] = left[e] = -value[e];
    left[e] = -left[e];
    for (const BatchKey& batch : batches) {
      left[e] += SimulatedTables::CountedGradient(batch, key, e);
    }
  }
  const size_t left_out = batches.size() - counted;
  const bool fits = left_out <= kMostLeftOut  ? AreSumOf(left, key, batches, 0, left_out)
                    : counted <= kMostLeftOut ? AreSumOf(taken, key, batches, 0, counted)
                                              : true;
  if (fits) return "";
  return absl::StrCat("the row of key ", key, " is not the sum of ", counted, " of the batches ",
                      TextOf(batches));
}

}  // namespace

TableLedger::TableLedger(const SimulatedTables* tables, const SliceTable* slices,
                         uint32_t first_variable, const v1::RunConfig& run)
    : model_(*tables), slices_(*slices), first_variable_(first_variable) {
  if (model_.size() == 0) return;
  const UpdateSettings settings = *UpdateSettingsFrom(run.optimizer(), 0);
  for (const v1::VariableSpec& spec : model_.specs()) {
    const TableSettings own = *TableSettingsFrom(spec, settings);
    Table& table = tables_.emplace_back();
    table.updater = *TableUpdater::Create(own.options, run.seed());
    table.schedule =
        std::make_unique<LearningRateSchedule>(*LearningRateSchedule::Create(own.schedule));
  }
}

bool TableLedger::HasExpired(const Table& table, const Row& row, uint64_t version) const {
  const uint64_t most = table.updater->options().idle_updates;
  return most > 0 && row.count > 0 && version - row.touched > most;
}

std::vector<float> TableLedger::ValueOf(const Table& table, uint64_t key, uint64_t version) const {
  std::vector<float> value(table.updater->dim());
  const auto row = table.rows.find(key);
  if (row == table.rows.end() || row->second.floats.empty() ||
      HasExpired(table, row->second, version)) {
    table.updater->FillInitialValue(key, value.data());
  } else {
    std::copy_n(row->second.floats.begin(), value.size(), value.begin());
  }
  return value;
}

uint64_t TableLedger::HashOfRows(const TouchedKeys& keys, uint64_t version) const {
  uint64_t sum = 0;
  for (size_t t = 0; t < tables_.size(); ++t) {
    for (const uint64_t key : keys[t]) {
      sum += model_.HashOfRow(t, key, ValueOf(tables_[t], key, version).data());
    }
  }
  return sum;
}

void TableLedger::Add(const BatchKey& batch, const TouchedKeys& keys, uint64_t values_hash,
                      float weight, uint64_t version) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (!model_.is_trained(t)) continue;
    const size_t dim = model_.dim(t);
    std::vector<float> gradient(dim);
    for (const uint64_t key : keys[t]) {
      model_.Gradient(values_hash, batch, t, key, ValueOf(tables_[t], key, version).data(),
                      gradient.data());
      Sums& sums = sums_[slices_.BucketOf(first_variable_ + static_cast<uint32_t>(t), key)];
      const auto [place, is_first] = sums.places.try_emplace(key, sums.keys.size());
      if (is_first) {
        sums.keys.push_back(key);
        sums.gradients.resize(sums.gradients.size() + dim);
      }
      float* const sum = sums.gradients.data() + place->second * dim;
      for (size_t e = 0; e < dim; ++e) {
        const float product = weight * gradient[e];
        sum[e] = is_first ? product : sum[e] + product;
      }
      sums.batches[key].push_back(batch);
    }
  }
}

double TableLedger::SquaresOfSums(uint32_t slice) const {
  const auto sums = sums_.find(slice);
  return sums == sums_.end() ? 0 : SumOfSquares(sums->second.gradients);
}

void TableLedger::Update(Table* table, const Sums& sums, const TableUpdater::Update& update) {
  const auto version = static_cast<uint64_t>(update.step) - 1;
  TableUpdater::Scratch scratch(*table->updater);
  for (size_t i = 0; i < sums.keys.size(); ++i) {
    const uint64_t key = sums.keys[i];
    Row& row = table->rows[key];
    if (HasExpired(*table, row, version)) row = Row();
    const std::vector<BatchKey>& batches = sums.batches.at(key);
    row.batches.insert(row.batches.end(), batches.begin(), batches.end());
    row.touched = version + 1;
    if (row.floats.empty()) {
      if (++row.count < table->updater->options().min_count) continue;
      row.floats.resize(table->updater->row_floats());
      table->updater->FillInitialRow(key, row.floats.data());
    }
    float* const floats = row.floats.data();
    table->updater->Apply(update, sums.gradients.data() + i * table->updater->dim(), {&floats, 1},
                          &scratch);
  }
}

void TableLedger::Apply(uint64_t version, float scale) {
  for (const auto& [slice, sums] : sums_) {
    Table* const table = &tables_[slices_[slice].variable - first_variable_];
    TableUpdater::Update update;
    update.step = static_cast<int64_t>(version) + 1;
    update.learning_rate = table->schedule->At(static_cast<int64_t>(version));
    update.scale = scale;
    Update(table, sums, update);
  }
  sums_.clear();
}

std::string TableLedger::Compare(uint32_t slice, uint64_t version, const BucketRows& saved) const {
  const Table& table = tables_[slices_[slice].variable - first_variable_];
  const size_t row_floats = table.updater->row_floats();
  size_t r = 0, c = 0;
  for (const auto& [key, row] : table.rows) {
    if (slices_.BucketOf(slices_[slice].variable, key) != slice) continue;
    const auto wrong = [&, key = key, &row = row](const std::string& what) {
      return absl::StrCat("key ", key, ": ", what, "; it was touched by the batches ",
                          TextOf(row.batches));
    };
    if (HasExpired(table, row, version)) continue;
    if (row.floats.empty()) {
      if (c >= saved.counted_keys.size() || saved.counted_keys[c] != key) {
        return wrong("its count is missing, or there is another one before");
      }
      if (saved.counts[c] != row.count) {
        return wrong(absl::StrCat("counted ", saved.counts[c], " times, not ", row.count));
      }
      if (saved.counted_touched[c] != row.touched) {
        return wrong(
            absl::StrCat("counted last at ", saved.counted_touched[c], ", not at ", row.touched));
      }
      ++c;
      continue;
    }
    if (r >= saved.keys.size() || saved.keys[r] != key) {
      return wrong("its row is missing, or there is another one before");
    }
    if (saved.touched[r] != row.touched) {
      return wrong(absl::StrCat("touched at ", saved.touched[r], ", not at ", row.touched));
    }
    const auto floats = saved.rows.begin() + static_cast<ptrdiff_t>(r * row_floats);
    if (!std::equal(row.floats.begin(), row.floats.end(), floats)) {
      return wrong("the row differs from the sequential run's");
    }
    ++r;
  }
  if (r < saved.keys.size()) return absl::StrCat("key ", saved.keys[r], " should have no row");
  if (c < saved.counted_keys.size()) {
    return absl::StrCat("key ", saved.counted_keys[c], " should not be counted");
  }
  return "";
}

std::string CheckCountedRows(const v1::VariableSpec& table,
                             const std::map<BatchKey, std::set<uint64_t>>& touched,
                             uint64_t version, const BucketRows& saved) {
  std::map<uint64_t, std::vector<BatchKey>> batches_of;
  for (const auto& [batch, keys] : touched) {
    for (const uint64_t key : keys) batches_of[key].push_back(batch);
  }
  const auto dim = static_cast<size_t>(table.shape(0));
  const size_t min_count = std::max<size_t>(table.table().min_count(), 1);
  const uint64_t idle = table.table().idle_updates();
  const bool may_expire = idle > 0 && version > idle + 1;
  for (size_t i = 0; i < saved.counted_keys.size(); ++i) {
    const uint64_t key = saved.counted_keys[i];
    const size_t touches = batches_of[key].size();
    const uint32_t count = saved.counts[i];
    if (count == 0 || count >= min_count || count > touches || (!may_expire && count != touches)) {
      return absl::StrCat("key ", key, " is counted ", count, " times instead of ", touches);
    }
    const uint64_t last = saved.counted_touched[i];
    if (last == 0 || last > version || (idle > 0 && version - last > idle)) {
      return absl::StrCat("key ", key, " was counted at ", last, " of ", version);
    }
  }
  for (size_t i = 0; i < saved.keys.size(); ++i) {
    const uint64_t key = saved.keys[i];
    const std::vector<BatchKey>& batches = batches_of[key];
    const float* const value = saved.rows.data() + i * dim;
    if (saved.touched[i] == 0 || saved.touched[i] > version ||
        (idle > 0 && version - saved.touched[i] > idle)) {
      return absl::StrCat("key ", key, " was touched at ", saved.touched[i], " of ", version);
    }
    if (batches.size() < min_count || !(value[0] <= -1)) {
      return absl::StrCat("key ", key, " has a row after ", batches.size(), " batches");
    }
    const size_t counted =
        may_expire ? static_cast<size_t>(-value[0]) : batches.size() - (min_count - 1);
    if (counted + min_count - 1 > batches.size()) {
      return absl::StrCat("key ", key, " counts ", counted, " of ", batches.size(), " batches");
    }
    if (std::string wrong = CheckValue(key, value, dim, batches, counted); !wrong.empty()) {
      return wrong;
    }
  }
  if (may_expire) return "";
  for (const auto& [key, batches] : batches_of) {
    const auto& keys = batches.size() < min_count ? saved.counted_keys : saved.keys;
    if (!std::binary_search(keys.begin(), keys.end(), key)) {
      return absl::StrCat("key ", key, " is missing, which the batches ", TextOf(batches),
                          " have touched");
    }
  }
  return "";
}

}  // namespace shoal
