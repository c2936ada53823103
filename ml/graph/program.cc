#include "ml/graph/program.h"

#include <cstring>
#include <utility>

#include "base/log.h"

namespace shoal {

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
}

size_t Program::arena_bytes() const {
  size_t bytes = 0;
  for (const DeviceProgram& device : parts_.devices) bytes += device.arena.size();
  return bytes;
}

void Program::Bind(const RunBindings& bindings) {
  CHECK_EQ(bindings.inputs.size(), parts_.num_inputs) << "bindings.inputs, one per feed";
  CHECK_EQ(bindings.variables.size(), parts_.reads_variable.size()) << "bindings.variables";
  CHECK_EQ(bindings.outputs.size(), parts_.output_specs.size()) << "bindings.outputs, per fetch";
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

void Program::RunDevice(int device_index) {
  const DeviceProgram& device = parts_.devices[device_index];
  if (parts_.set_threads) parts_.set_threads(parts_.threads_per_device);
  int num_steps = 0;
  for (const ProgramStep& step : device.steps) {
    for (const ProgramStep::Wait& wait : step.waits) Await(wait);
    RunStep(device, step);
    ++num_steps;
    if (step.is_awaited) Report(device_index, num_steps);
    for (int output : step.finished_outputs) (*on_final_)(output);
  }
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
  step.kernel->Run(context);
}

void Program::Report(int device, int num_steps) {
  Progress& progress = *progress_[device];
  {
    MutexLock lock(&progress.mutex);
    progress.num_steps.store(num_steps, std::memory_order_release);
  }
  progress.changed.NotifyAll();
}

void Program::Await(const ProgramStep::Wait& wait) {
  Progress& progress = *progress_[wait.device];
  if (progress.num_steps.load(std::memory_order_acquire) >= wait.num_steps) return;
  MutexLock lock(&progress.mutex);
  while (progress.num_steps.load(std::memory_order_acquire) < wait.num_steps) {
    progress.changed.Wait(&progress.mutex);
  }
}

}  // namespace shoal
