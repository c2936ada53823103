#include "worker/replica/row_sets.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "ml/optim/all_finite.h"
#include "ml/optim/gradient_clipping.h"
#include "ml/optim/table_config.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/row_payload.h"

namespace shoal {
namespace {

// The payload of a bucket that a batch touches no row of has no bytes.
const uint64_t kNoRows = 0;

// The keys that a program asks for in one call have no number.
std::string DescribeBatch(const BatchKeys& keys, bool is_evaluated) {
  if (keys.index() < 0) return is_evaluated ? "a block of the test data" : "a batch";
  return absl::StrCat(is_evaluated ? "block " : "batch ", keys.index(),
                      is_evaluated ? " of the test data" : "");
}

}  // namespace

std::string RemedyForFullBucket(uint64_t buckets, uint64_t bytes, absl::string_view smaller) {
  if (buckets >= kMostBuckets) {
    return absl::StrCat("make ", smaller, " smaller, since a table cannot have more buckets");
  }
  const uint64_t wanted = buckets * (2 * bytes / kDefaultMaxBulkPayloadBytes + 1);
  const uint64_t possible = std::min<uint64_t>(wanted, kMostBuckets);
  return absl::StrCat(
      "set the table's buckets to ", possible, " (--set=table[0].buckets=", possible,
      " if it is the run file's first table), ", wanted > kMostBuckets ? "and" : "or", " make ",
      smaller,
      " smaller; a run that has a checkpoint keeps its buckets, so a new run must "
      "continue it, with --init_state --init_from=DIRECTORY of this run, which keep "
      "its rows, slots and counts");
}

RowSets::RowSets(const ReplicaProgram* program, const SliceTable* table,
                 const std::vector<ExchangeGroup>* groups)
    : program_(*program), places_(groups->size()) {
  const std::vector<TableLookups>& lookups = program->lookups();
  std::vector<size_t> lookup_of(table->num_variables());
  for (size_t t = 0; t < lookups.size(); ++t) {
    lookup_of[lookups[t].table] = t;
    dim_.push_back(table->row_elements_of(lookups[t].table));
    capacity_.push_back(std::max<int64_t>(program->FirstRowCapacity(t), 1));
  }
  for (size_t g = 0; g < groups->size(); ++g) {
    if (!(*groups)[g].buckets) continue;
    for (const uint32_t slice : (*groups)[g].slices) {
      const uint32_t variable = (*table)[slice].variable;
      places_[g].push_back({lookup_of[variable], slice - table->first_slice_of(variable)});
    }
  }
  for (Set& set : sets_) {
    set.keys.resize(lookups.size());
    for (const TableLookups& lookup : lookups) {
      set.begins.emplace_back(table->num_buckets_of(lookup.table) + 1);
    }
    set.values.resize(lookups.size());
    set.capacity.resize(lookups.size());
    for (const std::vector<Place>& places : places_) set.pulls.emplace_back(places.size());
  }
  for (std::vector<Payloads>& payloads : payloads_) {
    payloads.resize(places_.size());
    for (size_t g = 0; g < places_.size(); ++g) {
      payloads[g].data.resize(places_[g].size());
      payloads[g].bytes.resize(places_[g].size());
    }
  }
  rows_.resize(lookups.size());
}

absl::Status RowSets::CheckFits(const BatchKeys& keys, bool is_evaluated) const {
  for (size_t t = 0; t < keys.tables().size(); ++t) {
    const std::vector<uint32_t>& begins = keys.tables()[t].begins;
    uint32_t most = 0;
    for (size_t b = 0; b + 1 < begins.size(); ++b) most = std::max(most, begins[b + 1] - begins[b]);
    const uint64_t bytes = RowPayloadBytes(most, dim_[t]);
    if (bytes <= kDefaultMaxBulkPayloadBytes) continue;
    const uint64_t buckets = begins.size() - 1;
    return absl::FailedPreconditionError(
        absl::StrCat("table ", program_.variables()[program_.lookups()[t].table].name(), ": ",
                     DescribeBatch(keys, is_evaluated), " has ", most, " keys in one of ", buckets,
                     " buckets; with their rows of ", dim_[t], " numbers they have ", bytes,
                     " bytes, and a message holds ", kDefaultMaxBulkPayloadBytes, "; ",
                     RemedyForFullBucket(buckets, bytes,
                                         is_evaluated ? "data.evaluation_block" : "batch_size")));
  }
  return absl::OkStatus();
}

void RowSets::Prepare(uint32_t index, const BatchKeys* keys) {
  Set& set = sets_[index];
  set.is_of_batch = keys != nullptr;
  if (keys == nullptr) {
    for (std::vector<RowPull>& pulls : set.pulls) std::fill(pulls.begin(), pulls.end(), RowPull());
    return;
  }
  set.epoch = keys->epoch();
  set.index = keys->index();
  for (size_t t = 0; t < set.keys.size(); ++t) {
    const std::vector<uint64_t>& wanted = keys->tables()[t].keys;
    set.keys[t].assign(wanted.begin(), wanted.end());
    set.begins[t] = keys->tables()[t].begins;
    while (capacity_[t] < static_cast<int64_t>(wanted.size())) capacity_[t] *= 2;
    if (set.capacity[t] >= capacity_[t]) continue;
    set.capacity[t] = capacity_[t];
    set.values[t] = Buffer(static_cast<uint64_t>(capacity_[t]) * dim_[t] * sizeof(float));
  }
  for (size_t g = 0; g < places_.size(); ++g) {
    for (size_t i = 0; i < places_[g].size(); ++i) {
      const auto [t, bucket] = places_[g][i];
      const std::vector<uint32_t>& begins = keys->tables()[t].begins;
      const uint32_t begin = begins[bucket];
      set.pulls[g][i] = {set.keys[t].data() + begin, begins[bucket + 1] - begin,
                         static_cast<float*>(set.values[t].data()) + begin * dim_[t]};
    }
  }
}

bool RowSets::IsPreparedFor(uint32_t set, const BatchKeys& keys) const {
  return sets_[set].is_of_batch && sets_[set].epoch == keys.epoch() &&
         sets_[set].index == keys.index();
}

bool RowSets::IsPreparedFor(uint32_t index, uint32_t epoch, int64_t batch) const {
  const Set& set = sets_[index];
  return set.is_of_batch && set.epoch == epoch && set.index == batch;
}

bool RowSets::FindRows(uint32_t index, const BatchKeys& keys,
                       std::vector<std::vector<int32_t>>* places) const {
  const Set& set = sets_[index];
  places->resize(set.keys.size());
  for (size_t t = 0; t < set.keys.size(); ++t) {
    const TableKeys& wanted = keys.tables()[t];
    (*places)[t].resize(wanted.keys.size());
    for (size_t b = 0; b + 1 < wanted.begins.size(); ++b) {
      const auto end = set.keys[t].begin() + set.begins[t][b + 1];
      auto known = set.keys[t].begin() + set.begins[t][b];
      for (uint32_t i = wanted.begins[b]; i < wanted.begins[b + 1]; ++i) {
        known = std::lower_bound(known, end, wanted.keys[i]);
        if (known == end || *known != wanted.keys[i]) return false;
        (*places)[t][i] = static_cast<int32_t>(known - set.keys[t].begin());
      }
    }
  }
  return true;
}

absl::Span<const TableRows> RowSets::GetRows(uint32_t index, const BatchKeys& keys) {
  const Set& set = sets_[index];
  for (size_t t = 0; t < rows_.size(); ++t) {
    rows_[t] = {&keys.tables()[t], static_cast<const float*>(set.values[t].data()),
                set.capacity[t]};
  }
  return rows_;
}

bool RowSets::Encode(uint32_t contribution_set, uint32_t group, const BatchKeys& keys,
                     float scale) {
  Payloads& payloads = payloads_[contribution_set][group];
  const std::vector<Place>& places = places_[group];
  const auto count_of = [&](const Place& place) {
    const std::vector<uint32_t>& begins = keys.tables()[place.lookup].begins;
    return program_.RowGradients(place.lookup) == nullptr
               ? 0
               : begins[place.bucket + 1] - begins[place.bucket];
  };
  size_t words = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint32_t count = count_of(places[i]);
    payloads.bytes[i] = count == 0 ? 0 : RowPayloadBytes(count, dim_[places[i].lookup]);
    words += (payloads.bytes[i] + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  }
  if (payloads.memory.size() < words) payloads.memory.resize(words);
  uint64_t* next = payloads.memory.data();
  bool finite = true;
  for (size_t i = 0; i < places.size(); ++i) {
    payloads.data[i] = &kNoRows;
    if (payloads.bytes[i] == 0) continue;
    const TableKeys& table = keys.tables()[places[i].lookup];
    const uint64_t dim = dim_[places[i].lookup];
    const uint32_t begin = table.begins[places[i].bucket];
    const uint32_t count = table.begins[places[i].bucket + 1] - begin;
    const float* const gradients = program_.RowGradients(places[i].lookup) + begin * dim;
    finite = finite && AllFinite(gradients, count * dim);
    char* const payload = reinterpret_cast<char*>(next);
    EncodeRows({{table.keys.data() + begin, count}, gradients}, dim, payload);
    if (scale != 1) {
      float* const values = reinterpret_cast<float*>(payload + payloads.bytes[i]) - count * dim;
      for (uint64_t k = 0; k < count * dim; ++k) values[k] *= scale;
    }
    payloads.data[i] = payload;
    next += (payloads.bytes[i] + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  }
  return finite;
}

bool RowSets::AddSquares(const BatchKeys& keys, double* sum) const {
  for (size_t t = 0; t < dim_.size(); ++t) {
    const float* const gradients = program_.RowGradients(t);
    if (gradients == nullptr) continue;
    const uint64_t count = keys.tables()[t].keys.size() * dim_[t];
    if (!AllFinite(gradients, count)) return false;
    *sum += SumOfSquares({gradients, count});
  }
  return true;
}

}  // namespace shoal
