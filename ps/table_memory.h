// The memory of a ps whose tables grow while it serves them.
#ifndef SHOAL_PS_TABLE_MEMORY_H_
#define SHOAL_PS_TABLE_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "base/mutex.h"
#include "proto/v1/chief_service.pb.h"
#include "ps/memory_check.h"
#include "runtime/tables/table_use.h"

namespace shoal {

// Returns the sum of the bytes of tables.
uint64_t BytesOf(absl::Span<const TableUse> tables);

// Returns FAILED_PRECONDITION if the tables and `need`, which is everything else, exceed the limit.
absl::Status CheckTables(const MemoryNeed& need, absl::Span<const TableUse> tables,
                         const MemoryBounds& bounds);

// Adds the rows of tables to what else a ps needs, for its reports. Thread-safe.
class TableMemory {
 public:
  // The ps is about to serve other slices, which need `need` without the rows of their tables.
  // `variables` has the names of all variables of the run.
  void StartLineage(const MemoryNeed& need, const MemoryBounds& bounds,
                    std::vector<std::string> variables);

  // Describes the memory for the chief.
  v1::PsMemory Describe(absl::Span<const TableUse> tables) const;

 private:
  mutable Mutex mutex_;
  uint64_t others_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes that are not of tables
  uint64_t limit_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string limit_set_by_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_PS_TABLE_MEMORY_H_
