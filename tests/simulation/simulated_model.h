#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_MODEL_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_MODEL_H_

#include <cstdint>
#include <set>
#include <vector>

#include "ml/data/batch_plan.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/metric_sums.h"
#include "tests/simulation/simulated_tables.h"
#include "tests/simulation/table_ledger.h"

namespace shoal {

// The values of all slices, indexed by slice; those of buckets are empty.
using SliceArrays = std::vector<std::vector<float>>;

// A model whose gradients reveal how they were computed: each number is a hash of the batch and of
// every bit of every parameter. So the final bytes of a run are right only if each batch was
// counted once, in its position, and was computed from the right version of all slices.
class SimulatedModel {
 public:
  // Declares variables of different kinds and sizes, in slices of at most 16 floats. In ASYNC all
  // of them start at 0 and are trained. Tables, if there are any, come before or after them.
  explicit SimulatedModel(uint64_t seed, bool synchronous = true, bool has_tables = false);

  const std::vector<v1::VariableSpec>& variables() const { return variables_; }
  const SliceTable& table() const { return table_; }
  v1::UpdateKind update_of(uint32_t slice) const {
    return variables_[table_[slice].variable].update();
  }
  const SimulatedTables& tables() const { return tables_; }
  uint32_t first_table() const { return first_table_; }  // its variable
  // Returns the hash of all that a batch was computed from: the dense values and its rows.
  uint64_t HashWithRows(uint64_t values_hash, uint64_t rows_hash) const;

  SliceArrays Zeros() const;
  static uint64_t HashOf(const SliceArrays& values);
  // The contribution of a batch to one slice.
  void Contribution(uint64_t values_hash, const BatchKey& batch, uint32_t slice,
                    const std::vector<float>& value, float* contribution) const;
  // ASYNC: a small integer, so that the sum over any batches is exact in any order.
  static float CountedContribution(const BatchKey& batch, uint32_t slice, size_t element);
  static BatchReport Report(uint64_t values_hash, const BatchKey& batch, uint32_t examples);
  static double EvaluationLoss(uint64_t values_hash, uint64_t block);
  // A mean and an AUC. Batches report the mean only.
  static MetricSums EvaluationMetrics(uint64_t values_hash, uint64_t block);

 private:
  const SimulatedTables tables_;
  uint32_t first_table_ = 0;
  std::vector<v1::VariableSpec> variables_;
  SliceTable table_;
};

// Computes the expected result of a run with plain loops over steps, positions and slices. The only
// code under test that it uses is the arithmetic of ml/optim.
class SequentialRun {
 public:
  // `batches` tells which examples, and so which rows, a batch reads.
  SequentialRun(const SimulatedModel& model, const v1::RunConfig& run, const StepPlan& plan,
                const BatchPlan& batches, const std::set<BatchKey>& skipped);

  struct StepSums {
    double loss_sum = 0;
    double regularization = 0;
    uint64_t correct = 0;
    uint64_t examples = 0;
    double metric_sum = 0, metric_weight = 0;
  };
  StepSums Step();  // Computes the next version.
  uint64_t version() const { return version_; }
  const SliceArrays& values() const { return values_; }
  const SliceArrays& slots() const { return slots_; }  // In the layout of SliceStore.
  const TableLedger& tables() const { return tables_; }
  // Returns the hash of all that the evaluation of a block reads.
  uint64_t HashForBlock(uint64_t block) const;

 private:
  void AddUp(const std::vector<uint32_t>& positions, SliceArrays* sums, uint64_t* examples,
             StepSums* report);

  const SimulatedModel& model_;
  const v1::RunConfig& run_;
  const StepPlan plan_;
  const BatchPlan batches_;
  const std::set<BatchKey> skipped_;
  uint64_t version_ = 0;
  SliceArrays values_;
  SliceArrays slots_;
  TableLedger tables_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_MODEL_H_
