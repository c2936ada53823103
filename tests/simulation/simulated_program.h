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
  explicit SimulatedProgram(Options options) : options_(std::move(options)) {}

  const std::vector<v1::VariableSpec>& variables() const override {
    return options_.model->variables();
  }
  bool contributes(uint32_t variable) const override {
    return variables()[variable].update() != v1::UPDATE_KIND_NONE;
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
  void Take(double low, double high);
  absl::Status Die();

  const Options options_;
};

// Returns a data set of empty examples: contributions follow from a batch's number alone.
std::unique_ptr<Dataset> NewSimulatedDataset(uint64_t examples);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_PROGRAM_H_
