#include "ps/table_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace shoal {

uint64_t SumBytes(absl::Span<const TableUse> tables) {
  uint64_t bytes = 0;
  for (const TableUse& use : tables) bytes += use.bytes;
  return bytes;
}

namespace {

// Returns the limit that holds now: what the ps can use now counts if it is less.
MemoryLimit LowerToAvailable(MemoryLimit limit, uint64_t available) {
  if (available < limit.bytes) {
    limit.bytes = available;
    limit.set_by = kFreeMemory;
  }
  return limit;
}

}  // namespace

absl::Status CheckTables(const MemoryNeed& need, absl::Span<const TableUse> tables,
                         const MemoryBounds& bounds, bool are_all) {
  const uint64_t bytes = SumBytes(tables);
  const uint64_t total = bytes + need.total();
  const MemoryLimit limit = LowerToAvailable(bounds.limit, bounds.limit.available);
  if (total <= limit.bytes) return absl::OkStatus();
  const std::string why =
      absl::StrCat("the rows of this ps's tables need ", are_all ? "" : "more than ",
                   InMebibytes(bytes), " and everything else ", need.Describe(), ", but ",
                   limit.set_by, " allows ", InMebibytes(limit.bytes),
                   "; use more ps tasks (--num_ps_tasks), a larger --ps_memory, or machines with "
                   "more memory");
  return total > bounds.limit.bytes ? absl::FailedPreconditionError(why)
                                    : absl::ResourceExhaustedError(why);
}

absl::Status BoundedSlices::FillBucket(uint32_t slice, BucketContents* contents) {
  RETURN_IF_ERROR(check_());
  return source_.FillBucket(slice, contents);
}

void TableMemory::StartLineage(const MemoryNeed& need, const MemoryBounds& bounds,
                               std::vector<std::string> variables) {
  MutexLock lock(&mutex_);
  others_ = need.total();
  limit_ = bounds.limit;
  names_ = std::move(variables);
}

v1::PsMemory TableMemory::Describe(absl::Span<const TableUse> tables) const {
  v1::PsMemory memory;
  const uint64_t available = read_limit_().available;
  const uint64_t of_process = read_use_();
  MutexLock lock(&mutex_);
  for (const TableUse& use : tables) {
    if (use.table >= names_.size()) continue;
    v1::PsMemory::Table* table = memory.add_tables();
    table->set_name(names_[use.table]);
    table->set_rows(use.rows);
    table->set_bytes(use.bytes);
    table->set_keys_read(use.keys_read);
    table->set_rows_found(use.rows_found);
  }
  uint64_t used = others_ + SumBytes(tables);
  const MemoryLimit limit = LowerToAvailable(limit_, available);
  if (limit.set_by != "cluster.ps_memory") used = std::max(used, of_process);
  memory.set_used(used);
  memory.set_limit(limit.bytes);
  memory.set_limit_set_by(limit.set_by);
  return memory;
}

}  // namespace shoal
