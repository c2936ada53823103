#ifndef SHOAL_RUNTIME_VARIABLES_STORE_TABLES_H_
#define SHOAL_RUNTIME_VARIABLES_STORE_TABLES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "runtime/tables/row_slabs.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket.h"
#include "runtime/variables/update_rules.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

// The things that the buckets of each table in one SliceStore share: how rows are updated, the pool
// from which they take memory, and the memory in which they compute. A table is known by the index
// of its variable. Not thread-safe, except for InUse.
class StoreTables {
 public:
  // Adds the table of a variable, with its learning rate to `rules`. `seed` is the run's: the
  // initial values of rows depend on it. InvalidArgument: see TableSettingsFrom and TableUpdater.
  absl::Status Add(uint32_t variable, const v1::VariableSpec& spec, const UpdateSettings& run,
                   uint64_t seed, UpdateRules* rules);

  // Returns an empty bucket of the table, which must outlive it.
  std::unique_ptr<Bucket> MakeBucket(uint32_t variable);
  const TableUpdater& updater(uint32_t variable) const { return *tables_.at(variable).updater; }
  // Returns which of the rates of `rules` the table's rows are updated with.
  uint32_t rate_index(uint32_t variable) const { return tables_.at(variable).rate_index; }
  // Returns the use of every table that has a bucket here. Any thread may call it once all buckets
  // are made.
  std::vector<TableUse> InUse() const;

 private:
  struct Table {
    std::unique_ptr<TableUpdater> updater;
    std::shared_ptr<SlabPool> pool;
    std::unique_ptr<TableCounts> counts;
    std::unique_ptr<BucketScratch> scratch;  // null while the table has no buckets here
    uint32_t rate_index = 0;
  };

  std::map<uint32_t, Table> tables_;  // Keyed by variable.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_STORE_TABLES_H_
