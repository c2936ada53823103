// Runs of toy_program in tests.
#ifndef SHOAL_TESTS_COMPUTE_PROGRAM_TOY_RUN_H_
#define SHOAL_TESTS_COMPUTE_PROGRAM_TOY_RUN_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "ml/data/prefetcher.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"
#include "worker/program/program_inputs.h"
#include "worker/replica/replica_program.h"

namespace shoal {

inline constexpr char kToy[] = "tests/compute_program/toy_program";

inline v1::RunConfig RunOf(const std::string& mode) {
  v1::RunConfig run;
  run.mutable_program()->set_file(kToy);
  if (!mode.empty()) run.mutable_program()->add_args(mode);
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  run.set_out(absl::StrCat(getenv("TEST_TMPDIR"), "/", test->name(), "_", mode));
  run.set_batch_size(24);
  run.set_num_epochs(1);
  run.set_seed(3);
  ResolveDefaults(TaskCounts(), &run);
  run.mutable_cluster()->set_wait_seconds(20);
  run.mutable_cluster()->set_grace_seconds(1);
  return run;
}

inline absl::StatusOr<ReplicaInputs> Load(const v1::RunConfig& run, FileSystem* files,
                                          const Clock* clock, bool was_checked = false,
                                          ShutdownNotification* shutdown = nullptr) {
  TaskOptions options;
  options.run = run;
  options.was_checked = was_checked;
  options.file_system = files;
  options.clock = clock;
  options.shutdown = shutdown;
  return LoadProgramInputs(&options);
}

// A toy program with two sets of parameters and two of contributions, like a replica's.
class Trained {
 public:
  explicit Trained(const std::string& mode, bool was_checked = false,
                   ShutdownNotification* shutdown = nullptr)
      : files_(NewPosixFileSystem()), run_(RunOf(mode)) {
    EXPECT_TRUE(files_->MakeDirectory(run_.out()).ok());
    absl::StatusOr<ReplicaInputs> inputs = Load(run_, files_.get(), &clock_, was_checked, shutdown);
    status_ = inputs.status();
    if (inputs.ok()) inputs_ = *std::move(inputs);
  }

  const absl::Status& status() const { return status_; }
  uint64_t WriteInitialValues() {
    EXPECT_TRUE(inputs_.write_initial_values(&inputs_.declaration).ok());
    return inputs_.declaration.initial_values();
  }
  ReplicaInputs& inputs() { return inputs_; }
  ReplicaProgram& program() { return *inputs_.program; }
  float* parameter(uint32_t v) { return program().ParameterMemory(0, v); }
  float* contribution(uint32_t set, uint32_t v) { return program().ContributionMemory(set, v); }

  LoadedBatch Batch(uint32_t epoch, int64_t index) const {
    LoadedBatch batch;
    batch.epoch = epoch;
    batch.index = index;
    batch.num_examples = inputs_.train_plan->num_examples(index);
    return batch;
  }

  absl::Status Train(uint32_t epoch, int64_t index, BatchResult* result, uint32_t set = 0) {
    std::vector<const float*> parameters;
    std::vector<float*> contributions;
    for (uint32_t v = 0; v < program().variables().size(); ++v) {
      parameters.push_back(parameter(v));
      contributions.push_back(program().contributes(v) ? contribution(set, v) : nullptr);
    }
    const LoadedBatch batch = Batch(epoch, index);
    ReplicaProgram::TrainArguments arguments;
    arguments.batch = &batch;
    arguments.parameters = parameters;
    arguments.contributions = contributions;
    finals_.assign(parameters.size(), 0);
    return program().Train(
        arguments, result, [this](uint32_t v, int64_t) { ++finals_[v]; }, [] {});
  }

  // Evaluates all test examples of the toy program.
  absl::Status Evaluate(BatchResult* result) {
    std::vector<const float*> parameters;
    for (uint32_t v = 0; v < program().variables().size(); ++v) parameters.push_back(parameter(v));
    LoadedBatch block;
    block.num_examples = 50;
    return program().Evaluate(block, parameters, {}, result);
  }

  // Trains until something fails.
  absl::Status TrainAll() {
    for (int64_t index = 0; index < 10; ++index) {
      BatchResult result;
      const absl::Status status = Train(0, index, &result, index % 2);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const std::vector<int>& finals() const { return finals_; }

 private:
  const RealClock clock_;
  const std::unique_ptr<FileSystem> files_;
  const v1::RunConfig run_;
  absl::Status status_;
  ReplicaInputs inputs_;
  std::vector<int> finals_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_COMPUTE_PROGRAM_TOY_RUN_H_
