#ifndef SHOAL_RUNTIME_VARIABLES_PARTITIONED_STORE_H_
#define SHOAL_RUNTIME_VARIABLES_PARTITIONED_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/interval_set.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/slice_source.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

// The most parts that a store can have.
inline constexpr size_t kMaxStoreParts = 64;

// Spreads the slices of `ps` over `num_parts` parts, or fewer if there are fewer groups of
// versioned slices (see MakeExchangeGroups). The slices of a group are in one part, so that an
// exchange uses only one. Parts have about the same number of bytes, and consecutive groups are in
// different parts. Slices without versions are in the first part. The result has at least one part;
// each part is in index order.
std::vector<std::vector<uint32_t>> SpreadSlices(const SliceTable& table,
                                                const std::vector<uint32_t>& owner, uint32_t ps,
                                                size_t num_parts);

// The slices of one ps, divided into parts that different threads may use at the same time. Each
// part is a SliceStore. The functions here mean the same as those of SliceStore, for all parts
// together. Except for part() and the functions whose results cannot change after Load, they need
// exclusive access to all parts.
class PartitionedStore {
 public:
  // Divides the staging memory among the parts in proportion to their bytes. Dense slices together,
  // and buckets together, have at least half of it or 64 times their bytes, whichever is less.
  static absl::StatusOr<std::unique_ptr<PartitionedStore>> Create(
      const SliceStoreOptions& options, absl::Span<const v1::VariableSpec> variables,
      const SliceTable& table, const std::vector<std::vector<uint32_t>>& parts);
  // Makes a store of one part.
  explicit PartitionedStore(std::unique_ptr<SliceStore> store);

  absl::Status Load(const SliceStore::LoadOptions& options, SliceSource& source);

  // These cannot change after Load.
  size_t num_parts() const { return parts_.size(); }
  SliceStore& part(size_t index) { return *parts_[index]; }
  // Returns the part of an owned slice.
  size_t PartOf(uint32_t slice) const { return part_of_[slice]; }
  const SliceTable& table() const { return parts_[0]->table(); }
  const StepPlan& plan() const { return parts_[0]->plan(); }
  absl::Span<const uint32_t> owned() const { return owned_; }
  bool Owns(uint32_t slice) const { return slice < part_of_.size() && part_of_[slice] != kNoPart; }
  std::vector<std::string> slot_names(uint32_t slice) const {
    return parts_[PartOf(slice)]->slot_names(slice);
  }

  uint64_t newest_version(uint32_t slice) const {
    return parts_[PartOf(slice)]->newest_version(slice);
  }
  WithholdAnswer Withhold(const BatchKey& batch, uint64_t number);
  void Decide(const BatchKey& batch, uint64_t number, bool skip);
  CutAnswer RequestCut(uint64_t version);
  IntervalSet Applied(uint32_t epoch) const;
  void ForgetEpochsBefore(uint32_t epoch);
  void ApplyScale(uint64_t step, double scale);
  // Any thread may call it, also while others use the parts.
  std::vector<TableUse> TablesInUse() const;

 private:
  static constexpr uint8_t kNoPart = UINT8_MAX;

  explicit PartitionedStore(std::vector<std::unique_ptr<SliceStore>> parts);

  const std::vector<std::unique_ptr<SliceStore>> parts_;
  std::vector<uint32_t> owned_;   // in index order
  std::vector<uint8_t> part_of_;  // indexed by global slice index
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_PARTITIONED_STORE_H_
