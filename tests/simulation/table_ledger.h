// The ledger of a simulated run's rows: every batch counts once in every row that it touches.
#ifndef SHOAL_TESTS_SIMULATION_TABLE_LEDGER_H_
#define SHOAL_TESTS_SIMULATION_TABLE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ml/data/batch_plan.h"
#include "ml/optim/learning_rate_schedule.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/table_updater.h"
#include "tests/simulation/simulated_tables.h"

namespace shoal {

// SYNC: the rows of all tables of a sequential run, each in a map by key, with the batches that
// have touched it. The only code under test that it uses is the arithmetic of runtime/tables for
// one row at a time.
class TableLedger {
 public:
  // Borrows `tables`. `slices` has them at the variables `first_variable` and after it.
  TableLedger(const SimulatedTables* tables, const SliceTable* slices, uint32_t first_variable,
              const v1::RunConfig& run);

  // Returns a hash of the rows of these keys at a version, which is the newest one.
  uint64_t HashOfRows(const TouchedKeys& keys, uint64_t version) const;
  // Adds the gradients of a batch, times its weight, to the sums of the next version.
  void Add(const BatchKey& batch, const TouchedKeys& keys, uint64_t values_hash, float weight,
           uint64_t version);
  // Returns the sum of the squares of a bucket's sums.
  double SquaresOfSums(uint32_t slice) const;
  // Makes the next version from the sums, which it clears.
  void Apply(uint64_t version, float scale);
  // Says how a bucket of a checkpoint of this version differs; empty if it does not.
  std::string Compare(uint32_t slice, uint64_t version, const BucketRows& saved) const;

  std::vector<std::string> slot_names(size_t table) const {
    return tables_[table].updater->slot_names();
  }

 private:
  struct Row {
    std::vector<float> floats;  // empty: it is not admitted yet
    uint64_t touched = 0;
    uint32_t count = 0;
    std::vector<BatchKey> batches;  // those that have touched it since it was last untrained
  };
  // The sums of one bucket, in the order in which their keys were touched first.
  struct Sums {
    std::vector<uint64_t> keys;
    std::vector<float> gradients;
    std::map<uint64_t, size_t> places;
    std::map<uint64_t, std::vector<BatchKey>> batches;
  };
  struct Table {
    std::unique_ptr<TableUpdater> updater;
    std::unique_ptr<LearningRateSchedule> schedule;
    std::map<uint64_t, Row> rows;
  };

  bool HasExpired(const Table& table, const Row& row, uint64_t version) const;
  std::vector<float> ValueOf(const Table& table, uint64_t key, uint64_t version) const;
  void Update(Table* table, const Sums& sums, const TableUpdater::Update& update);

  const SimulatedTables& model_;
  const SliceTable& slices_;
  const uint32_t first_variable_;
  std::vector<Table> tables_;
  std::map<uint32_t, Sums> sums_;  // keyed by slice
};

// ASYNC: says what is wrong with a bucket of a table that has these batches, each once, in an
// unknown order; empty if nothing is. `touched` has the keys of each batch for the table. If rows
// can expire, which depends on the order, it checks that no batch counts twice.
std::string CheckCountedRows(const v1::VariableSpec& table,
                             const std::map<BatchKey, std::set<uint64_t>>& touched,
                             uint64_t version, const BucketRows& saved);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_TABLE_LEDGER_H_
