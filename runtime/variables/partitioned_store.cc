#include "runtime/variables/partitioned_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "runtime/variables/exchange_groups.h"

namespace shoal {
namespace {

// Dense slices have memory for so many contributions to each before their turn, if that is at most
// half of the staging memory. So have buckets.
constexpr double kStagedContributions = 64;

struct Bytes {
  double dense = 0;
  double buckets = 0;  // A guess: a bucket counts as Slice::kRowsOfBucket rows.
  double all() const { return dense + buckets; }
};

Bytes SumBytes(const SliceTable& table, absl::Span<const uint32_t> slices) {
  Bytes bytes;
  for (const uint32_t slice : slices) {
    (table[slice].is_bucket ? bytes.buckets : bytes.dense) +=
        static_cast<double>(table[slice].num_bytes());
  }
  return bytes;
}

// Divides staging memory among parts with these bytes. The guess for buckets must not leave dense
// slices without memory for the contributions of many workers, nor the reverse.
std::vector<uint64_t> DivideStaging(uint64_t staging, absl::Span<const Bytes> parts) {
  Bytes sum;
  for (const Bytes& part : parts) {
    sum.dense += part.dense;
    sum.buckets += part.buckets;
  }
  const auto all = static_cast<double>(staging);
  const auto least = [all](double bytes) {
    return std::min(all / 2, kStagedContributions * bytes);
  };
  const double in_proportion = sum.all() == 0 ? 0 : all * (sum.dense / sum.all());
  const double for_dense = std::clamp(in_proportion, least(sum.dense), all - least(sum.buckets));
  std::vector<uint64_t> shares;
  for (const Bytes& part : parts) {
    double share = 0;
    if (part.dense > 0) share += for_dense * (part.dense / sum.dense);
    if (part.buckets > 0) share += (all - for_dense) * (part.buckets / sum.buckets);
    shares.push_back(static_cast<uint64_t>(share));
  }
  return shares;
}

std::vector<std::unique_ptr<SliceStore>> OnePart(std::unique_ptr<SliceStore> store) {
  std::vector<std::unique_ptr<SliceStore>> parts;
  parts.push_back(std::move(store));
  return parts;
}

}  // namespace

std::vector<std::vector<uint32_t>> SpreadSlices(const SliceTable& table,
                                                const std::vector<uint32_t>& owner, uint32_t ps,
                                                size_t num_parts) {
  const std::vector<ExchangeGroup> groups = MakeExchangeGroups(table, owner);
  const auto is_spread = [ps](const ExchangeGroup& group) {
    return group.ps == ps && group.versioned;
  };
  const size_t num_spread =
      static_cast<size_t>(std::count_if(groups.begin(), groups.end(), is_spread));
  num_parts = std::clamp<size_t>(std::min(num_parts, num_spread), 1, kMaxStoreParts);
  std::vector<std::vector<uint32_t>> parts(num_parts);
  std::vector<uint64_t> bytes(num_parts, 0);
  for (const ExchangeGroup& group : groups) {
    if (!is_spread(group)) continue;
    const auto least = std::min_element(bytes.begin(), bytes.end());
    std::vector<uint32_t>& part = parts[static_cast<size_t>(least - bytes.begin())];
    part.insert(part.end(), group.slices.begin(), group.slices.end());
    *least += group.bytes;
  }
  for (const ExchangeGroup& group : groups) {
    if (group.ps != ps || group.versioned) continue;
    parts[0].insert(parts[0].end(), group.slices.begin(), group.slices.end());
  }
  for (std::vector<uint32_t>& part : parts) std::sort(part.begin(), part.end());
  return parts;
}

absl::StatusOr<std::unique_ptr<PartitionedStore>> PartitionedStore::Create(
    const SliceStoreOptions& options, absl::Span<const v1::VariableSpec> variables,
    const SliceTable& table, const std::vector<std::vector<uint32_t>>& parts) {
  std::vector<Bytes> bytes;
  for (const std::vector<uint32_t>& part : parts) bytes.push_back(SumBytes(table, part));
  const std::vector<uint64_t> shares = DivideStaging(options.staging_bytes, bytes);
  std::vector<std::unique_ptr<SliceStore>> stores;
  for (size_t i = 0; i < parts.size(); ++i) {
    SliceStoreOptions part_options = options;
    if (parts.size() > 1) part_options.staging_bytes = shares[i];
    ASSIGN_OR_RETURN(std::unique_ptr<SliceStore> store,
                     SliceStore::Create(part_options, variables, table, parts[i]));
    stores.push_back(std::move(store));
  }
  return std::unique_ptr<PartitionedStore>(new PartitionedStore(std::move(stores)));
}

PartitionedStore::PartitionedStore(std::unique_ptr<SliceStore> store)
    : PartitionedStore(OnePart(std::move(store))) {}

PartitionedStore::PartitionedStore(std::vector<std::unique_ptr<SliceStore>> parts)
    : parts_(std::move(parts)), part_of_(parts_[0]->table().size(), kNoPart) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const absl::Span<const uint32_t> owned = parts_[i]->owned();
    owned_.insert(owned_.end(), owned.begin(), owned.end());
    for (const uint32_t slice : owned) part_of_[slice] = static_cast<uint8_t>(i);
  }
  std::sort(owned_.begin(), owned_.end());
}

absl::Status PartitionedStore::Load(const SliceStore::LoadOptions& options, SliceSource& source) {
  for (const auto& part : parts_) RETURN_IF_ERROR(part->Load(options, source));
  return absl::OkStatus();
}

WithholdAnswer PartitionedStore::Withhold(const BatchKey& batch, uint64_t number) {
  WithholdAnswer all;
  all.all_have = all.none_has = true;
  for (const auto& part : parts_) {
    const WithholdAnswer answer = part->Withhold(batch, number);
    // All parts know the same decisions.
    if (answer.ignored) return answer;
    all.all_have &= answer.all_have;
    all.none_has &= answer.none_has;
  }
  return all;
}

void PartitionedStore::Decide(const BatchKey& batch, uint64_t number, bool skip) {
  for (const auto& part : parts_) part->Decide(batch, number, skip);
}

CutAnswer PartitionedStore::RequestCut(uint64_t version) {
  if (num_parts() == 1) return parts_[0]->RequestCut(version);
  // No part may begin a cut that another one has passed.
  CutAnswer answer;
  for (const uint32_t slice : owned_) {
    const uint64_t newest = newest_version(slice);
    if (newest != kEveryVersion) answer.newest_version = std::max(answer.newest_version, newest);
  }
  answer.passed = parts_[0]->is_synchronous() && answer.newest_version > version;
  if (answer.passed) return answer;
  for (const auto& part : parts_) answer.waits |= part->RequestCut(version).waits;
  return answer;
}

IntervalSet PartitionedStore::Applied(uint32_t epoch) const {
  IntervalSet common = parts_[0]->Applied(epoch);
  for (size_t i = 1; i < parts_.size(); ++i) {
    common = IntervalSet::Intersection(common, parts_[i]->Applied(epoch));
  }
  return common;
}

void PartitionedStore::ForgetEpochsBefore(uint32_t epoch) {
  for (const auto& part : parts_) part->ForgetEpochsBefore(epoch);
}

void PartitionedStore::ApplyScale(uint64_t step, double scale) {
  for (const auto& part : parts_) part->ApplyScale(step, scale);
}

std::vector<TableUse> PartitionedStore::TablesInUse() const {
  std::map<uint32_t, TableUse> all;
  for (const auto& part : parts_) {
    for (const TableUse& use : part->TablesInUse()) {
      TableUse& sum = all[use.table];
      sum.table = use.table;
      sum.rows += use.rows;
      sum.bytes += use.bytes;
      sum.keys_read += use.keys_read;
      sum.rows_found += use.rows_found;
    }
  }
  std::vector<TableUse> uses;
  for (const auto& [table, use] : all) uses.push_back(use);
  return uses;
}

}  // namespace shoal
