// (testonly) Trains like a run with num_ps_tasks=0, but without a chief and without reading data.
// It has the graph and memory of a worker, and a parameter server in this process.
#ifndef SHOAL_TESTS_BENCHMARK_LOCAL_TRAINING_H_
#define SHOAL_TESTS_BENCHMARK_LOCAL_TRAINING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ml/data/dataset.h"
#include "ml/data/prefetcher.h"
#include "ml/tensor/buffer.h"
#include "proto/v1/parameter_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "ps/parameter_server.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/variables/variable_store.h"
#include "worker/replica/graph_program.h"
#include "worker/replica/replica.h"

namespace shoal {

// One replica that computes the same batch in every step; plain SGD. Single-threaded use.
class LocalTraining {
 public:
  struct Options {
    // Either seed_mlp with a target of one column, lenet (fashion_cnn on 28x28 images), or
    // mobilenet_v2 on 96x96 or resnet18 on 64x64 images with 1000 classes.
    std::string model = "seed_mlp";
    uint32_t batch_size = 2000;  // for each device
    uint32_t threads = 1;        // compute threads of each device
    uint32_t devices = 1;        // the number of devices /cpu:0, /cpu:1, ..., each with one clone
    // If set, the devices to use instead, such as "/gpu:0,/gpu:1". Their number must be `devices`,
    // and they must exist.
    std::string device_list;
    std::string variables = "cpu";  // or first_device, mirrored
    bool cuda_graphs = false;       // steps of GPUs are replayed from CUDA graphs
    bool bfloat16 = false;          // operands of products are bfloat16
    // The chief to which the server reports; null: a fake.
    ChiefClient* chief = nullptr;
  };

  static absl::StatusOr<std::unique_ptr<LocalTraining>> Create(const Options& options);
  ~LocalTraining();
  LocalTraining(const LocalTraining&) = delete;
  LocalTraining& operator=(const LocalTraining&) = delete;

  // Does one training step: forward, loss, backward and update. Returns when all new values are in
  // the worker's memory.
  absl::Status Step();

  // Return the parts, for a caller that uses a trainer instead of Step.
  Replica* replica() { return replica_.get(); }
  VariableStore* store() { return store_.get(); }
  const Clock* clock() const { return &clock_; }
  const StepPlan& steps() const { return *steps_; }
  const std::vector<FieldSpec>& fields() const { return fields_; }

 private:
  LocalTraining() = default;
  absl::Status BuildProgram();
  absl::Status StartServer(ChiefClient* chief);
  v1::LoadSlicesRequest LoadRequest() const;
  absl::Status PullFirstValues();
  void MakeBatch();
  void Begin(uint32_t exchanges);
  void Start(const Exchange& exchange);
  absl::Status AwaitExchanges();

  v1::RunConfig run_;
  RealClock clock_;
  FakeChief chief_;
  std::vector<FieldSpec> fields_;
  std::optional<StepPlan> steps_;
  std::vector<Buffer> rows_;
  LoadedBatch batch_;
  std::unique_ptr<GraphProgram> program_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<SliceTable> table_;
  std::unique_ptr<VariableStore> store_;
  std::unique_ptr<Replica> replica_;
  uint64_t step_ = 0;
  uint32_t num_versioned_ = 0;

  Mutex mutex_;
  CondVar changed_;
  uint32_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_TESTS_BENCHMARK_LOCAL_TRAINING_H_
