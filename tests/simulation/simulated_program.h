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
    // Returns the different keys of a batch of training data for each table.
    std::function<TouchedKeys(const BatchKey&)> keys_of;
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
  void UseRows(absl::Span<const TableRows> rows) override;
  bool asks_for_rows() const override { return options_.model->tables().are_asked_for(); }
  void UseAskedRows(AskedRows* asked) override { asked_ = asked; }
  const float* RowGradients(size_t lookup) const override;
  uint32_t announced_ahead() const override { return asks_for_rows() ? 1 : 0; }
  void Expect(uint64_t /*step*/, absl::Span<const BatchKey> next) override {
    next_.assign(next.begin(), next.end());
  }
  std::vector<v1::MetricSpec> metrics() const override;
  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override;
  absl::Status Evaluate(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                        absl::Span<const uint64_t> versions, BatchResult* result) override;
  std::string compute_fingerprint() const override { return "simulated"; }

 private:
  // The rows of one table that a batch reads.
  struct Rows {
    absl::Span<const uint64_t> keys;
    const float* values = nullptr;
  };

  // Asks for the rows of a batch, in one call or in several.
  void AskForRows(const LoadedBatch& batch, bool is_training);
  // Names the keys of the next batch: mostly, and sometimes others.
  void NameKeysAhead();
  SliceArrays Cut(absl::Span<const float* const> parameters) const;
  uint64_t HashOfAll(const SliceArrays& values) const;
  void ComputeRowGradients(uint64_t hash, const BatchKey& batch);
  // Lets a duration pass that is drawn from this range.
  void Take(double low, double high);
  absl::Status Die();

  const Options options_;
  std::vector<TableLookups> lookups_;
  // Indexed as the lookups: the fields with the keys, the batch's rows and their gradients.
  std::vector<std::vector<KeyField>> fields_;
  std::vector<Rows> rows_;
  std::vector<std::vector<float>> row_gradients_;
  // The program asks for rows: the keys and values that rows_ refers to, and the batch that
  // follows.
  AskedRows* asked_ = nullptr;
  std::vector<std::vector<uint64_t>> asked_keys_;
  std::vector<std::vector<float>> asked_values_;
  std::vector<BatchKey> next_;
};

// Returns a data set whose examples have only the keys of tables: contributions follow from a
// batch's number. `tables` must outlive it; its examples are those from `first` on.
std::unique_ptr<Dataset> NewSimulatedDataset(uint64_t examples, const SimulatedTables* tables,
                                             int64_t first);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_PROGRAM_H_
