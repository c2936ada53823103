#include "runtime/variables/store_tables.h"

#include <utility>

#include "base/status_macros.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/table_settings.h"

namespace shoal {

absl::Status StoreTables::Add(uint32_t variable, const v1::VariableSpec& spec,
                              const UpdateSettings& run, uint64_t seed, UpdateRules* rules) {
  ASSIGN_OR_RETURN(const TableSettings settings, TableSettingsFrom(spec, run));
  Table table;
  ASSIGN_OR_RETURN(table.updater, TableUpdater::Create(settings.options, seed));
  table.pool = std::make_shared<SlabPool>(table.updater->row_floats());
  table.counts = std::make_unique<TableCounts>();
  ASSIGN_OR_RETURN(table.rate_index, rules->AddRate(settings.schedule));
  tables_.emplace(variable, std::move(table));
  return absl::OkStatus();
}

std::unique_ptr<Bucket> StoreTables::MakeBucket(uint32_t variable) {
  Table& table = tables_.at(variable);
  if (table.scratch == nullptr) table.scratch = std::make_unique<BucketScratch>(*table.updater);
  return std::make_unique<Bucket>(table.updater.get(), table.pool, table.counts.get(),
                                  table.scratch.get());
}

std::vector<TableUse> StoreTables::InUse() const {
  std::vector<TableUse> uses;
  for (const auto& [variable, table] : tables_) {
    if (table.scratch == nullptr) continue;
    TableUse use;
    use.table = variable;
    use.rows = table.counts->rows();
    use.bytes = table.counts->bytes() + table.pool->bytes();
    const TableCounts::Reads reads = table.counts->reads();
    use.keys_read = reads.keys;
    use.rows_found = reads.found;
    uses.push_back(use);
  }
  return uses;
}

}  // namespace shoal
