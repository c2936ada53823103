// The memory of a ps whose tables grow while it serves them.
#ifndef SHOAL_PS_TABLE_MEMORY_H_
#define SHOAL_PS_TABLE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "base/memory_limit.h"
#include "base/mutex.h"
#include "proto/v1/chief_service.pb.h"
#include "ps/memory_check.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/slice_source.h"

namespace shoal {

// Returns the sum of the bytes of tables.
uint64_t SumBytes(absl::Span<const TableUse> tables);

// Returns FAILED_PRECONDITION if the tables and `need`, which is everything else, exceed the limit,
// RESOURCE_EXHAUSTED if they exceed the memory that the ps can use now: another process, such as
// the one that it replaces, may free some. `are_all` is false while rows are still being loaded.
absl::Status CheckTables(const MemoryNeed& need, absl::Span<const TableUse> tables,
                         const MemoryBounds& bounds, bool are_all = true);

// Passes on the contents of another source, and ends the load as soon as `check` returns an error.
// So a ps whose rows need too much memory refuses the load before the machine runs out of it. One
// thread at a time may use the object.
class BoundedSlices : public SliceSource {
 public:
  // `source` must outlive the object. `check` is called before each bucket, and its error ends the
  // load.
  BoundedSlices(SliceSource* source, std::function<absl::Status()> check)
      : source_(*source), check_(std::move(check)) {}

  absl::Status Fill(uint32_t slice, Contents* contents) override {
    return source_.Fill(slice, contents);
  }
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override;

 private:
  SliceSource& source_;
  const std::function<absl::Status()> check_;
};

// Adds the rows of tables to what else a ps needs, for its reports. Thread-safe.
class TableMemory {
 public:
  // `read_limit` reads what the kernel allows this process now; other processes change it.
  // `read_use` reads the bytes that this process has now.
  explicit TableMemory(
      std::function<MemoryLimit()> read_limit = [] { return ReadMemoryLimit(); },
      std::function<uint64_t()> read_use = [] { return ReadAnonymousMemory(); })
      : read_limit_(std::move(read_limit)), read_use_(std::move(read_use)) {}

  // The ps is about to serve other slices, which need `need` without the rows of their tables.
  // `variables` has the names of all variables of the run.
  void StartLineage(const MemoryNeed& need, const MemoryBounds& bounds,
                    std::vector<std::string> variables);

  // Describes the memory for the chief. The limit is at most what the ps uses and what is free now:
  // other processes of the machine, such as other ps, may have taken the rest. Where the kernel
  // sets the limit, the use is at least what the process has, as the kernel counts that.
  v1::PsMemory Describe(absl::Span<const TableUse> tables) const;

 private:
  const std::function<MemoryLimit()> read_limit_;
  const std::function<uint64_t()> read_use_;
  mutable Mutex mutex_;
  uint64_t others_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes that are not of tables
  MemoryLimit limit_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_PS_TABLE_MEMORY_H_
