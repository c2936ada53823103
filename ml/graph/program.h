// The implementation of Executable: the steps of each device with the addresses of their operands,
// and the threads that run them. The assembler makes it. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_PROGRAM_H_
#define SHOAL_ML_GRAPH_PROGRAM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "base/mutex.h"
#include "ml/device/device.h"
#include "ml/device/device_group.h"
#include "ml/graph/device_transfers.h"
#include "ml/graph/executable.h"
#include "ml/tensor/buffer.h"

namespace shoal {

struct ProgramStep {
  std::unique_ptr<Kernel> kernel;  // null: copies copy_bytes from operand 0 to operand 1
  // The direction of a copy between the memories of the step's device, of the host and of another
  // device of the same type. kGroupPart: operand 0 is added to a sum of the device's group; the
  // root receives the sum in operand 1.
  enum class Copy { kWithin, kFromHost, kToHost, kFromPeer, kGroupPart };
  Copy copy = Copy::kWithin;
  int peer = -1;  // kFromPeer: the device with operand 0
  int root = -1;  // kGroupPart: a rank
  size_t copy_bytes = 0;
  // Index of its first operand in ProgramParts::operands: the inputs, then the outputs.
  int operands = 0;
  int num_inputs = 0;
  // Position of the clone's first example in the batch, added to RandomKey::first_example.
  uint64_t first_example = 0;
  struct Wait {
    int device;
    int num_steps;  // the number of steps that the device must have done
  };
  std::vector<Wait> waits;
  bool is_awaited = false;  // another device waits for this step
  // Only the caller reads this step's result, so the step may be late: postponed until the steps
  // that it waits for are done, so that its device continues with the next steps meanwhile.
  bool may_be_late = false;
  // The fetches that are final after this step, if the device is a host device.
  std::vector<int> finished_outputs;
  // Indexed by output of the kernel: the fetch that it is; -1: none.
  std::vector<int> fetch_of_output;

  // Events in the queues of a device with its own memory.
  std::unique_ptr<Device::Event> computed;  // kToHost, kGroupPart
  std::unique_ptr<Device::Event> done;      // if is_awaited
};

struct DeviceProgram {
  std::string name;
  std::vector<ProgramStep> steps;
  // The next members are for a host device.
  Buffer arena;
  std::function<void(int)> set_threads;  // may be empty
  // The steps of the current run that are late (see may_be_late).
  std::vector<int> late;
  // The next members are for a device with its own memory; null for a host device.
  std::shared_ptr<Device> device;
  DeviceMemory memory, staging;
  std::shared_ptr<DeviceGroup> group;  // may be null
  int rank = -1;
  bool may_record = false;
  int64_t num_runs = 0;
  std::unique_ptr<Device::Recording> recording;  // contains all steps except the group's parts
  std::unique_ptr<DeviceTransfers> transfers;

  void* workspace = nullptr;
};

// An operand whose address is set for each run from RunBindings.
struct OperandPatch {
  enum class Source { kInput, kVariable, kOutput };
  Source source;
  int index;
  int operand;
};

struct ProgramParts {
  std::vector<DeviceProgram> devices;  // each has at least one step
  std::vector<void*> operands;
  std::vector<OperandPatch> patches;
  std::vector<TensorSpec> output_specs;
  std::string text;
  int threads_per_device = 1;
  size_t num_inputs = 0;
  size_t num_variables = 0;
};

class Program : public Executable {
 public:
  explicit Program(ProgramParts parts);
  ~Program() override;

  void Run(const RunBindings& bindings, OnFinal on_final) override;
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(status_mutex_);
  const std::vector<TensorSpec>& output_specs() const override { return parts_.output_specs; }
  size_t arena_bytes() const override;
  std::string ToString() const override { return parts_.text; }

 private:
  // The number of steps that a device has done, or enqueued, in this run.
  struct Progress {
    std::atomic<int> num_steps{0};
    Mutex mutex;
    CondVar changed;
  };

  void Bind(const RunBindings& bindings);
  void RunDevice(int device);
  void RunHostSteps(int device);
  void RunHostStep(const DeviceProgram& device, const ProgramStep& step);
  // Returns whether all steps that a host step waits for are done. Once it has found an event that
  // has not passed, it sets `may_look` to false and queries no more events, because events of later
  // copies pass later.
  bool IsReady(const ProgramStep& step, bool* may_look) const;
  // Runs the late steps that are ready or, if `all`, every one of them as soon as it is ready.
  void RunLateSteps(bool all, DeviceProgram* device);
  void RunQueuedSteps(int device);
  void EnqueueSteps(int device);
  void RecordSteps(DeviceProgram* device);
  void ReplaySteps(int device);
  static bool IsGroupPart(const ProgramStep& step);
  void ReduceGroupPart(const DeviceProgram& device, const ProgramStep& step);
  void ReduceGroupParts(DeviceProgram* device);
  void RunStep(const DeviceProgram& device, const ProgramStep& step);
  // Enqueues the copy and returns the queue that it was put into.
  Device::Queue CopyOnQueue(DeviceProgram& device, ProgramStep& step);
  void Await(const DeviceProgram& device, const ProgramStep::Wait& wait);
  void Report(int device, int num_steps);
  // Returns the program's error or the first error of its devices, any of which may have computed a
  // value.
  absl::Status Check() const ABSL_LOCKS_EXCLUDED(status_mutex_);
  void RunOnThreads() ABSL_LOCKS_EXCLUDED(mutex_);
  void ThreadMain(int device) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(status_mutex_);

  ProgramParts parts_;
  std::vector<std::unique_ptr<Progress>> progress_;  // indexed by device
  // The bindings of the current run. They are set before the devices start and only read by them.
  const RunBindings* bindings_ = nullptr;
  const OnFinal* on_final_ = nullptr;
  RandomKey key_;

  Mutex mutex_;
  CondVar changed_;
  int64_t run_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // none with one device

  std::atomic<bool> has_failed_{false};
  mutable Mutex status_mutex_;
  absl::Status status_ ABSL_GUARDED_BY(status_mutex_);
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_PROGRAM_H_
