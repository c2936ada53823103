#include "ml/graph/program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// Passes on notifications about parts of outputs that are fetches.
class FetchedParts : public PartListener {
 public:
  FetchedParts(const std::vector<int>& fetch_of_output, Executable::OnFinal on_final)
      : fetch_of_output_(fetch_of_output), on_final_(on_final) {}

  void OnPart(int output, int64_t num_elements) override {
    const int fetch = fetch_of_output_[output];
    if (fetch >= 0) on_final_(fetch, num_elements);
  }

 private:
  const std::vector<int>& fetch_of_output_;
  const Executable::OnFinal on_final_;
};

}  // namespace

Program::Program(ProgramParts parts) : parts_(std::move(parts)) {
  for (size_t d = 0; d < parts_.devices.size(); ++d) {
    progress_.push_back(std::make_unique<Progress>());
  }
  if (parts_.devices.size() < 2) return;
  for (size_t d = 0; d < parts_.devices.size(); ++d) {
    threads_.emplace_back([this, d] { ThreadMain(static_cast<int>(d)); });
  }
}

Program::~Program() {
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  // Memory, kernels and events go back to their device from this thread.
  for (const DeviceProgram& device : parts_.devices) {
    if (device.device != nullptr) device.device->Activate();
  }
}

size_t Program::arena_bytes() const {
  size_t bytes = 0;
  for (const DeviceProgram& device : parts_.devices) {
    bytes += device.arena.size() + device.memory.size();
  }
  return bytes;
}

void Program::Bind(const RunBindings& bindings) {
  CHECK_EQ(bindings.inputs.size(), parts_.num_inputs) << "bindings.inputs, one per feed";
  CHECK_EQ(bindings.variables.size(), parts_.num_variables) << "bindings.variables";
  CHECK_EQ(bindings.outputs.size(), parts_.output_specs.size()) << "bindings.outputs, per fetch";
  CHECK(bindings.variable_versions.empty() ||
        bindings.variable_versions.size() == bindings.variables.size())
      << "bindings.variable_versions, all or none";
  for (const OperandPatch& patch : parts_.patches) {
    void* data = nullptr;
    switch (patch.source) {
      case OperandPatch::Source::kInput:
        data = const_cast<void*>(bindings.inputs[patch.index]);
        break;
      case OperandPatch::Source::kVariable:
        data = const_cast<void*>(bindings.variables[patch.index]);
        break;
      case OperandPatch::Source::kOutput:
        data = bindings.outputs[patch.index];
        break;
    }
    CHECK(data != nullptr) << "binding " << patch.index << " is null but used";
    parts_.operands[patch.operand] = data;
  }
}

void Program::Run(const RunBindings& bindings, OnFinal on_final) {
  Bind(bindings);
  bindings_ = &bindings;
  on_final_ = &on_final;
  key_ = bindings.key;
  for (auto& progress : progress_) progress->num_steps.store(0, std::memory_order_relaxed);
  if (threads_.empty()) {
    if (!parts_.devices.empty()) RunDevice(0);
  } else {
    RunOnThreads();
  }
}

void Program::RunOnThreads() {
  MutexLock lock(&mutex_);
  num_busy_ = static_cast<int>(threads_.size());
  ++run_;
  changed_.NotifyAll();
  while (num_busy_ > 0) changed_.Wait(&mutex_);
}

void Program::ThreadMain(int device) {
  int64_t last_run = 0;
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (run_ == last_run && !is_stopping_) changed_.Wait(&mutex_);
      if (is_stopping_) return;
      last_run = run_;
    }
    RunDevice(device);
    MutexLock lock(&mutex_);
    if (--num_busy_ == 0) changed_.NotifyAll();
  }
}

void Program::RunDevice(int device) {
  if (parts_.devices[device].device == nullptr) {
    RunHostSteps(device);
  } else {
    RunQueuedSteps(device);
  }
}

// Sums of gradients, which no other step reads, wait for other devices without delaying this one.
// After each step the device runs those that are ready.
void Program::RunHostSteps(int device_index) {
  DeviceProgram& device = parts_.devices[device_index];
  if (device.set_threads) device.set_threads(parts_.threads_per_device);
  device.late.clear();
  for (size_t i = 0; i < device.steps.size(); ++i) {
    const ProgramStep& step = device.steps[i];
    if (!device.late.empty()) RunLateSteps(false, &device);
    bool may_look = device.late.empty();
    if (step.may_be_late && !IsReady(step, &may_look)) {
      device.late.push_back(static_cast<int>(i));
      continue;
    }
    RunHostStep(device, step);
    if (step.is_awaited) Report(device_index, static_cast<int>(i) + 1);
  }
  RunLateSteps(true, &device);
}

void Program::RunHostStep(const DeviceProgram& device, const ProgramStep& step) {
  for (const ProgramStep::Wait& wait : step.waits) Await(device, wait);
  RunStep(device, step);
  if (has_failed_.load(std::memory_order_relaxed)) return;
  for (int output : step.finished_outputs) (*on_final_)(output, kAll);
}

bool Program::IsReady(const ProgramStep& step, bool* may_look) const {
  for (const ProgramStep::Wait& wait : step.waits) {
    if (progress_[wait.device]->num_steps.load(std::memory_order_acquire) < wait.num_steps) {
      return false;
    }
    const DeviceProgram& other = parts_.devices[wait.device];
    if (other.device == nullptr) continue;
    *may_look = *may_look && other.steps[wait.num_steps - 1].done->HasPassed();
    if (!*may_look) return false;
  }
  return true;
}

void Program::RunLateSteps(bool all, DeviceProgram* device) {
  bool has_run = true;  // else the first is waited for
  do {
    size_t left = 0;
    bool may_look = true, is_first = true;
    bool runs = false;
    for (const int late : device->late) {
      const ProgramStep& step = device->steps[late];
      if (IsReady(step, &may_look) || (is_first && !has_run)) {
        RunHostStep(*device, step);
        runs = true;
      } else {
        device->late[left++] = late;
      }
      is_first = false;
    }
    device->late.resize(left);
    has_run = runs;
  } while (all && !device->late.empty());
}

// Enqueues all steps of the device, then delivers the outputs as they are downloaded.
void Program::RunQueuedSteps(int device_index) {
  DeviceProgram& device = parts_.devices[device_index];
  device.device->Activate();
  // The first run shows the libraries what they will need.
  if (device.may_record && device.recording == nullptr && device.num_runs > 0) {
    RecordSteps(&device);
  }
  ++device.num_runs;
  device.transfers->StartUpload(*bindings_);
  if (device.recording == nullptr) {
    EnqueueSteps(device_index);
  } else {
    ReplaySteps(device_index);
  }
  const auto check = [this] { return Check(); };
  const auto fail = [this](const absl::Status& status) { Fail(status); };
  device.transfers->Finish(*bindings_, check, fail, *on_final_);
}

void Program::EnqueueSteps(int device_index) {
  DeviceProgram& device = parts_.devices[device_index];
  int num_steps = 0;
  for (ProgramStep& step : device.steps) {
    for (const ProgramStep::Wait& wait : step.waits) Await(device, wait);
    Device::Queue queue = Device::Queue::kCompute;
    if (step.kernel == nullptr) {
      queue = CopyOnQueue(device, step);
    } else {
      RunStep(device, step);
    }
    if (step.done != nullptr) device.device->Record(queue, step.done.get());
    device.transfers->AfterStep(num_steps);
    ++num_steps;
    if (step.is_awaited) Report(device_index, num_steps);
  }
}

void Program::RecordSteps(DeviceProgram* program) {
  DeviceProgram& device = *program;
  device.may_record = false;  // once
  absl::Status status = device.device->StartRecording();
  if (status.ok()) {
    for (size_t i = 0; i < device.steps.size(); ++i) {
      ProgramStep& step = device.steps[i];
      if (step.kernel != nullptr) {
        RunStep(device, step);
      } else if (step.copy != ProgramStep::Copy::kGroupPart) {
        CopyOnQueue(device, step);
      }
      device.transfers->RecordAfterStep(static_cast<int>(i));
    }
    absl::StatusOr<std::unique_ptr<Device::Recording>> recording = device.device->FinishRecording();
    status = recording.status();
    if (recording.ok()) device.recording = *std::move(recording);
  }
  if (!status.ok()) LOG(INFO) << device.name << " does not replay its steps: " << status.message();
}

bool Program::IsGroupPart(const ProgramStep& step) {
  return step.kernel == nullptr && step.copy == ProgramStep::Copy::kGroupPart;
}

void Program::ReduceGroupPart(const DeviceProgram& program, const ProgramStep& step) {
  void* const* operands = parts_.operands.data() + step.operands;
  program.group->ReduceSum(program.rank, step.root, static_cast<const float*>(operands[0]),
                           static_cast<float*>(operands[1]), step.copy_bytes / sizeof(float));
}

// Enqueues the group's parts as one piece of work that starts after everything in the compute
// queue.
void Program::ReduceGroupParts(DeviceProgram* program) {
  DeviceProgram& device = *program;
  const auto first = std::find_if(device.steps.begin(), device.steps.end(), IsGroupPart);
  if (first == device.steps.end()) return;
  device.device->Record(Device::Queue::kCompute, first->computed.get());
  device.device->Await(Device::Queue::kGroup, *first->computed);
  device.group->StartBatch(device.rank);
  for (const ProgramStep& step : device.steps) {
    if (IsGroupPart(step)) ReduceGroupPart(device, step);
  }
  device.group->EndBatch(device.rank);
}

// Notifies waiting devices when all steps are in the queue. Sums of the group come last.
void Program::ReplaySteps(int device_index) {
  DeviceProgram& device = parts_.devices[device_index];
  device.device->Replay(device.recording.get());
  ReduceGroupParts(&device);
  for (ProgramStep& step : device.steps) {
    if (step.done == nullptr) continue;
    const auto queue = IsGroupPart(step) ? Device::Queue::kGroup : Device::Queue::kCompute;
    device.device->Record(queue, step.done.get());
  }
  device.transfers->AfterReplay();
  Report(device_index, static_cast<int>(device.steps.size()));
}

void Program::RunStep(const DeviceProgram& device, const ProgramStep& step) {
  void** operands = parts_.operands.data() + step.operands;
  if (step.kernel == nullptr) {
    if (step.copy_bytes > 0) std::memcpy(operands[1], operands[0], step.copy_bytes);
    return;
  }
  KernelContext context;
  context.inputs = operands;
  context.outputs = operands + step.num_inputs;
  context.workspace = device.workspace;
  context.key = key_;
  context.key.first_example += step.first_example;
  if (device.device != nullptr) context.stream = device.device->stream();
  FetchedParts parts(step.fetch_of_output, *on_final_);
  const bool reports_parts = !step.finished_outputs.empty();
  if (reports_parts && !has_failed_.load(std::memory_order_relaxed)) context.parts = &parts;
  step.kernel->Run(context);
}

Device::Queue Program::CopyOnQueue(DeviceProgram& program, ProgramStep& step) {
  using Queue = Device::Queue;
  Device& device = *program.device;
  void* const* operands = parts_.operands.data() + step.operands;
  Queue queue = Queue::kCompute;
  switch (step.copy) {
    case ProgramStep::Copy::kWithin:
      if (step.copy_bytes > 0) device.CopyWithin(operands[1], operands[0], step.copy_bytes);
      break;
    case ProgramStep::Copy::kFromHost:
      device.CopyFromHost(operands[1], operands[0], step.copy_bytes);
      break;
    case ProgramStep::Copy::kFromPeer:
      device.CopyFromPeer(operands[1], *parts_.devices[step.peer].device, operands[0],
                          step.copy_bytes);
      break;
    case ProgramStep::Copy::kGroupPart:
      device.Record(Queue::kCompute, step.computed.get());
      device.Await(Queue::kGroup, *step.computed);
      ReduceGroupPart(program, step);
      queue = Queue::kGroup;
      break;
    case ProgramStep::Copy::kToHost:
      queue = Queue::kDownload;
      device.Record(Queue::kCompute, step.computed.get());
      device.Await(queue, *step.computed);
      device.CopyToHost(queue, operands[1], operands[0], step.copy_bytes);
      break;
  }
  return queue;
}

void Program::Report(int device, int num_steps) {
  Progress& progress = *progress_[device];
  {
    MutexLock lock(&progress.mutex);
    progress.num_steps.store(num_steps, std::memory_order_release);
  }
  progress.changed.NotifyAll();
}

// Waits until the awaited step is in its device's queue, then for its event. If possible, the
// waiting device's queue waits for the event; otherwise, as for copies to the host, this thread
// does.
void Program::Await(const DeviceProgram& device, const ProgramStep::Wait& wait) {
  Progress& progress = *progress_[wait.device];
  if (progress.num_steps.load(std::memory_order_acquire) < wait.num_steps) {
    MutexLock lock(&progress.mutex);
    while (progress.num_steps.load(std::memory_order_acquire) < wait.num_steps) {
      progress.changed.Wait(&progress.mutex);
    }
  }
  DeviceProgram& other = parts_.devices[wait.device];
  if (other.device == nullptr) return;
  ProgramStep& step = other.steps[wait.num_steps - 1];
  const bool is_copy_to_host = step.kernel == nullptr && step.copy == ProgramStep::Copy::kToHost;
  if (device.device != nullptr && !is_copy_to_host) {
    device.device->Await(Device::Queue::kCompute, *step.done);
    return;
  }
  const absl::Status waited = step.done->Wait();
  if (device.device != nullptr) device.device->Activate();
  const absl::Status status = waited.ok() ? Check() : waited;
  if (!status.ok()) Fail(status);
}

absl::Status Program::Check() const {
  if (has_failed_.load(std::memory_order_relaxed)) return status();
  for (const DeviceProgram& device : parts_.devices) {
    if (device.device != nullptr) RETURN_IF_ERROR(device.device->status());
  }
  return absl::OkStatus();
}

void Program::Fail(const absl::Status& status) {
  has_failed_.store(true, std::memory_order_relaxed);
  {
    MutexLock lock(&status_mutex_);
    if (status_.ok()) status_ = status;
  }
  for (const DeviceProgram& device : parts_.devices) {
    if (device.group != nullptr) device.group->Abort();
  }
}

absl::Status Program::status() const {
  MutexLock lock(&status_mutex_);
  return status_;
}

}  // namespace shoal
