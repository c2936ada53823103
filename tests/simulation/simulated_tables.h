// The tables of a simulated run: the rows that its batches touch, and what must become of them.
#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_TABLES_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ml/data/batch_plan.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/batch_key.h"

namespace shoal {

// The different keys of a batch for each table.
using TouchedKeys = std::vector<std::set<uint64_t>>;

// Up to three tables with different widths, buckets, optimizers, admission and expiry. An example's
// keys follow from its number. A few keys are in many examples and others in few, so rows wait for
// their admission, expire and come back.
class SimulatedTables {
 public:
  static constexpr int64_t kFirstTestExample = 1 << 20;

  // There are no tables.
  SimulatedTables() = default;
  // ASYNC: all rows start at 0, and an update subtracts the gradient.
  SimulatedTables(uint64_t seed, bool synchronous);

  // The variables that are tables.
  const std::vector<v1::VariableSpec>& specs() const { return specs_; }
  size_t size() const { return specs_.size(); }
  std::string ToString() const;
  uint64_t dim(size_t table) const { return static_cast<uint64_t>(specs_[table].shape(0)); }
  // Returns whether the loss depends on the table. If not, all contributions to it are empty.
  bool is_trained(size_t table) const { return table + 1 != untrained_; }
  // Returns whether the program learns the keys of a batch while it computes it, as a compute
  // program does, and not from the fields of the data set.
  bool are_asked_for() const { return are_asked_for_; }
  // The number of ragged fields of the data set that have keys of the table.
  size_t num_fields(size_t table) const { return 1 + table % 2; }

  // Returns the keys of one example in one of the table's fields.
  std::vector<uint64_t> KeysOf(size_t table, size_t field, int64_t example) const;
  // Returns the keys of some examples in all fields of all tables.
  TouchedKeys KeysOfExamples(const std::vector<int64_t>& examples) const;
  TouchedKeys KeysOfBatch(const BatchPlan& plan, const BatchKey& batch) const;

  // The sum of these over the rows of a batch is part of the hash of all that it was computed from.
  uint64_t HashOfRow(size_t table, uint64_t key, const float* value) const;
  // SYNC: the gradient of a row, which reveals the batch and all values that it was computed from.
  void Gradient(uint64_t values_hash, const BatchKey& batch, size_t table, uint64_t key,
                const float* value, float* gradient) const;
  // ASYNC: an element of a row's gradient, a small integer. The first one counts the batches.
  static float CountedGradient(const BatchKey& batch, uint64_t key, size_t element);

 private:
  uint64_t seed_ = 0;
  std::vector<v1::VariableSpec> specs_;
  bool are_asked_for_ = false;
  size_t untrained_ = 0;  // one more than the number of the table without gradients; 0: none
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_TABLES_H_
