// The executable as data: steps of each device with the places of their operands, and the threads
// that run them. Filled by the assembler. Private to ml/graph.
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
  // The direction of a copy: the memories are those of the step's device, of the host and of
  // another device of its type. kGroupPart: operand 0 is added to the sum of the device's group,
  // which the root receives in operand 1.
  enum class Copy { kWithin, kFromHost, kToHost, kFromPeer, kGroupPart };
  Copy copy = Copy::kWithin;
  int peer = -1;  // kFromPeer: the device with operand 0
  int root = -1;  // kGroupPart: a rank
  size_t copy_bytes = 0;
  int operands = 0;  // in Program::operands_: the inputs, then the outputs
  int num_inputs = 0;
  uint64_t first_example = 0;  // the clone's first example, added to the run's key
  struct Wait {
    int device;
    int num_steps;  // the device must have done so many steps
  };
  std::vector<Wait> waits;
  bool is_awaited = false;   // another device waits for this step
  bool may_be_late = false;  // nothing but the caller reads it: it need not hold up its device
  std::vector<int> finished_outputs;  // fetches of a host's device that are final after it
  std::vector<int> fetch_of_output;   // the same by the kernel's outputs; -1: no fetch

  // On a device with memory of its own: the step's place in its queues.
  std::unique_ptr<Device::Event> computed;  // kToHost, kGroupPart
  std::unique_ptr<Device::Event> done;      // if awaited
};

struct DeviceProgram {
  std::string name;
  std::vector<ProgramStep> steps;
  // A device of the host.
  Buffer arena;
  std::function<void(int)> set_threads;  // may be empty
  std::vector<int> late;  // steps of a run that are put off until what they wait for is there
  // A device with memory of its own; null on the host.
  std::shared_ptr<Device> device;
  DeviceMemory memory, staging;
  std::shared_ptr<DeviceGroup> group;  // may be null
  int rank = -1;
  bool may_record = false;
  int64_t num_runs = 0;
  std::unique_ptr<Device::Recording> recording;  // contains all steps but those with its group
  std::unique_ptr<DeviceTransfers> transfers;

  void* workspace = nullptr;
};

// The place of an operand that is bound anew for each run.
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
  std::vector<bool> reads_variable;
  std::string text;
  int threads_per_device = 1;
  size_t num_inputs = 0;
};

class Program : public Executable {
 public:
  explicit Program(ProgramParts parts);
  ~Program() override;

  void Run(const RunBindings& bindings, OnFinal on_final) override;
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(status_mutex_);
  const std::vector<TensorSpec>& output_specs() const override { return parts_.output_specs; }
  bool ReadsVariable(int variable_index) const override {
    return parts_.reads_variable[variable_index];
  }
  size_t arena_bytes() const override;
  std::string ToString() const override { return parts_.text; }

 private:
  // How far a device is in this run: steps done, or put into its queue.
  struct Progress {
    std::atomic<int> num_steps{0};
    Mutex mutex;
    CondVar changed;
  };

  void Bind(const RunBindings& bindings);
  void RunDevice(int device);
  void RunHostSteps(int device);
  void RunHostStep(const DeviceProgram& device, const ProgramStep& step);
  // Returns whether everything that a step of the host waits for is done. Looks at one event that
  // has not passed at most: `may_look` is false once one was seen, because events of later copies
  // pass later.
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
  // The program's error, or the first of its devices': values may come from any of them.
  absl::Status Check() const ABSL_LOCKS_EXCLUDED(status_mutex_);
  void RunOnThreads() ABSL_LOCKS_EXCLUDED(mutex_);
  void ThreadMain(int device) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(status_mutex_);

  ProgramParts parts_;
  std::vector<std::unique_ptr<Progress>> progress_;  // by device
  // The bindings of the current run: written before its devices start, read by them.
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
