// Presents a SimulatedModel as the program that a worker's replica runs.
#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_PROGRAM_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ml/data/dataset.h"
#include "runtime/plan/batch_key.h"
#include "tests/simulation/fibers.h"
#include "tests/simulation/simulated_model.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/replica_program.h"

namespace shoal {

class SimulatedProgram : public ReplicaProgram {
 public:
  struct Options {
    const SimulatedModel* model = nullptr;
    bool synchronous = true;
    Fibers* fibers = nullptr;
    SeededRandom* random = nullptr;
    double slowness = 1;  // A factor on the duration of a batch.
    // Returns whether the batch's gradient of the slice is not finite.
    std::function<bool(const BatchKey&, uint32_t slice)> is_bad;
    std::function<void(const BatchKey&)> begins;  // Called when the batch is about to be computed.
    // Returns whether this attempt to compute the batch kills the process.
    std::function<bool(const BatchKey&)> dies;
    std::function<void()> crash;  // Kills the process.
  };
  explicit SimulatedProgram(Options options);

  const std::vector<v1::VariableSpec>& variables() const override {
    return options_.model->variables();
  }
  bool contributes(uint32_t variable) const override {
    return variables()[variable].update() != v1::UPDATE_KIND_NONE;
  }
  const std::vector<TableLookups>& lookups() const override { return lookups_; }
  // Some batches have more rows.
  int64_t FirstRowCapacity(size_t /*lookup*/) const override { return 8; }
  void UseRows(absl::Span<const TableRows> rows) override {
    rows_.assign(rows.begin(), rows.end());
  }
  const float* RowGradients(size_t lookup) const override {
    return options_.model->tables().is_trained(lookup) ? row_gradients_[lookup].data() : nullptr;
  }
  std::vector<v1::MetricSpec> metrics() const override;
  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override;
  absl::Status Evaluate(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                        absl::Span<const uint64_t> versions, BatchResult* result) override;
  std::string compute_fingerprint() const override { return "simulated"; }

 private:
  SliceArrays Cut(absl::Span<const float* const> parameters) const;
  uint64_t HashOfAll(const SliceArrays& values) const;
  void ComputeRowGradients(uint64_t hash, const BatchKey& batch);
  // Lets a duration pass that is drawn from this range.
  void Take(double low, double high);
  absl::Status Die();

  const Options options_;
  std::vector<TableLookups> lookups_;
  std::vector<TableRows> rows_;  // The batch's rows, indexed as the lookups.
  std::vector<std::vector<float>> row_gradients_;
};

// Returns a data set whose examples have only the keys of tables: contributions follow from a
// batch's number. `tables` must outlive it; its examples are those from `first` on.
std::unique_ptr<Dataset> NewSimulatedDataset(uint64_t examples, const SimulatedTables* tables,
                                             int64_t first);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_PROGRAM_H_
