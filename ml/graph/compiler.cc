#include "ml/graph/compiler.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/memory_plan.h"
#include "ml/graph/plan.h"
#include "ml/graph/program.h"

namespace shoal {
namespace {

bool HasFused(const KernelBackend& backend, absl::string_view op) {
  return std::count(backend.fused_ops.begin(), backend.fused_ops.end(), op) > 0;
}

void Fuse(const KernelBackend& backend, Plan* plan) {
  if (HasFused(backend, "Dense") && HasFused(backend, "DenseGrad")) FuseDense(plan);
  if (HasFused(backend, "MaxPool")) FusePooling(plan);
  if (HasFused(backend, "ConvPool") && HasFused(backend, "ConvPoolGrad")) {
    FuseConvolutionPooling(plan);
  }
  if (HasFused(backend, "Conv")) FuseConvolutionActivation(plan);
  if (HasFused(backend, "BatchNorm")) FuseNormalization(plan);
  plan->RemoveUnused();
}

template <typename T>
void FillWith(double value, int64_t count, void* data) {
  std::fill_n(static_cast<T*>(data), count, static_cast<T>(value));
}

void Fill(const TensorSpec& spec, double value, void* data) {
  const int64_t count = spec.shape.num_elements();
  switch (spec.dtype) {
    case DataType::kFloat32:
      return FillWith<float>(value, count, data);
    case DataType::kFloat64:
      return FillWith<double>(value, count, data);
    case DataType::kInt32:
      return FillWith<int32_t>(value, count, data);
    case DataType::kInt64:
      return FillWith<int64_t>(value, count, data);
    case DataType::kUint8:
    case DataType::kBool:
      return FillWith<uint8_t>(value, count, data);
  }
}

// Where a value's bytes are.
struct Location {
  enum class Kind { kNone, kArena, kInput, kVariable, kOutput };
  Kind kind = Kind::kNone;
  int device = 0;  // kArena
  int index = 0;   // kArena: of the memory request; else: of the binding
};

// Turns a finished plan into a program.
class Assembler {
 public:
  Assembler(const CompileRequest& request, Plan plan)
      : request_(request),
        plan_(std::move(plan)),
        order_(Schedule(plan_, static_cast<int>(request.placer.devices.size()))) {}

  absl::StatusOr<std::unique_ptr<Executable>> Assemble();

 private:
  int RootOf(int value) const;
  void NumberSteps();
  void BindFetches();
  void LocateValues();
  void Locate(int value, int device);
  absl::Status MakeDevice(int device);
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const PlanStep& step) const;
  void AddConstant(const PlanStep& step, DeviceProgram* program);
  absl::Status AddKernelStep(int step, DeviceProgram* program);
  void AddCopySteps(int device, DeviceProgram* program);
  void AddOperand(int value);
  void AddWaits(const PlanStep& step, ProgramStep* program_step);
  void PlaceArenas();
  void FillConstants();
  std::string Describe(const PlanStep& step, const std::string& device) const;
  uint64_t FirstExample(int clone_index) const;

  const CompileRequest& request_;
  Plan plan_;
  std::vector<std::vector<int>> order_;             // by device, without aliases
  std::vector<std::pair<int, int>> position_;       // by step: its device and place there
  std::vector<std::vector<int>> consumers_;         // by root value: steps that read it
  std::vector<bool> is_awaited_;                    // by step
  std::vector<int> output_of_root_;                 // by value: the fetch that holds it, or -1
  std::vector<std::vector<int>> copies_;            // by device: fetches that are copied to
  std::vector<Location> locations_;                 // by root value
  std::vector<std::vector<MemoryRequest>> memory_;  // by device
  struct ArenaOperand {
    int operand, device, request;
  };
  std::vector<ArenaOperand> arena_operands_;
  std::vector<int> program_device_;  // by device: its index among those with steps
  struct ConstantOperand {
    int operand;
    TensorSpec spec;
    double value;
  };
  std::vector<ConstantOperand> constants_;
  ProgramParts parts_;
};

// The value that owns the bytes: reshapes see those of their input.
int Assembler::RootOf(int value) const {
  while (plan_.values[value].source == ValueSource::kStep) {
    const PlanStep& step = plan_.steps[plan_.values[value].producer];
    if (!IsAlias(step)) break;
    value = step.inputs[0];
  }
  return value;
}

void Assembler::NumberSteps() {
  position_.assign(plan_.steps.size(), {-1, -1});
  for (size_t d = 0; d < order_.size(); ++d) {
    std::vector<int>& order = order_[d];
    order.erase(std::remove_if(order.begin(), order.end(),
                               [this](int s) { return IsAlias(plan_.steps[s]); }),
                order.end());
    for (size_t i = 0; i < order.size(); ++i) {
      position_[order[i]] = {static_cast<int>(d), static_cast<int>(i)};
    }
  }
  consumers_.assign(plan_.values.size(), {});
  is_awaited_.assign(plan_.steps.size(), false);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    if (plan_.steps[s].is_removed || IsAlias(plan_.steps[s])) continue;
    for (int value : plan_.steps[s].inputs) {
      const int root = RootOf(value);
      consumers_[root].push_back(static_cast<int>(s));
      const PlanValue& produced = plan_.values[root];
      if (produced.source == ValueSource::kStep &&
          plan_.steps[produced.producer].device != plan_.steps[s].device) {
        is_awaited_[produced.producer] = true;
      }
    }
  }
}

// A fetch is written by the step that computes it; feeds, variables, constants and values fetched
// twice are copied at the end.
void Assembler::BindFetches() {
  output_of_root_.assign(plan_.values.size(), -1);
  copies_.resize(order_.size());
  for (size_t f = 0; f < plan_.fetches.size(); ++f) {
    const int root = RootOf(plan_.fetches[f]);
    const PlanValue& value = plan_.values[root];
    const bool is_computed = value.source == ValueSource::kStep;
    if (is_computed && output_of_root_[root] < 0 && plan_.steps[value.producer].op != "Constant") {
      output_of_root_[root] = static_cast<int>(f);
    } else {
      copies_[is_computed ? plan_.steps[value.producer].device : 0].push_back(static_cast<int>(f));
    }
  }
}

void Assembler::Locate(int value, int device) {
  Location& location = locations_[value];
  const int step = plan_.values[value].producer;
  const bool is_copied =
      std::any_of(copies_[device].begin(), copies_[device].end(),
                  [&](int fetch) { return RootOf(plan_.fetches[fetch]) == value; });
  if (output_of_root_[value] >= 0) {
    location = {Location::Kind::kOutput, 0, output_of_root_[value]};
    return;
  }
  if (consumers_[value].empty() && !is_copied) return;  // nobody needs this output
  const int end = static_cast<int>(order_[device].size());
  MemoryRequest request{plan_.values[value].spec.bytes(), position_[step].second, 0};
  request.last = request.first;
  for (int consumer : consumers_[value]) {
    const auto [at_device, at] = position_[consumer];
    request.last = std::max(request.last, at_device == device ? at : end);
  }
  if (is_copied) request.last = end;
  if (plan_.steps[step].op == "Constant") request = {request.bytes, 0, end};
  location = {Location::Kind::kArena, device, static_cast<int>(memory_[device].size())};
  memory_[device].push_back(request);
}

void Assembler::LocateValues() {
  locations_.assign(plan_.values.size(), {});
  memory_.resize(order_.size());
  for (size_t v = 0; v < plan_.values.size(); ++v) {
    const PlanValue& value = plan_.values[v];
    if (value.source == ValueSource::kFeed) {
      locations_[v] = {Location::Kind::kInput, 0, value.index};
    } else if (value.source == ValueSource::kVariable) {
      locations_[v] = {Location::Kind::kVariable, 0, value.index};
    }
  }
  for (size_t d = 0; d < order_.size(); ++d) {
    for (int step : order_[d]) {
      for (int value : plan_.steps[step].outputs) Locate(value, static_cast<int>(d));
    }
  }
}

void Assembler::AddOperand(int value) {
  const Location& location = locations_[RootOf(value)];
  const int operand = static_cast<int>(parts_.operands.size());
  parts_.operands.push_back(nullptr);
  switch (location.kind) {
    case Location::Kind::kNone:
      return;
    case Location::Kind::kArena:
      arena_operands_.push_back({operand, location.device, location.index});
      return;
    case Location::Kind::kInput:
      parts_.patches.push_back({OperandPatch::Source::kInput, location.index, operand});
      return;
    case Location::Kind::kVariable:
      parts_.reads_variable[location.index] = true;
      parts_.patches.push_back({OperandPatch::Source::kVariable, location.index, operand});
      return;
    case Location::Kind::kOutput:
      parts_.patches.push_back({OperandPatch::Source::kOutput, location.index, operand});
      return;
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> Assembler::MakeKernel(const PlanStep& step) const {
  std::vector<TensorSpec> inputs, outputs;
  KernelRequest request;
  for (int value : step.inputs) inputs.push_back(plan_.values[value].spec);
  for (int value : step.outputs) {
    outputs.push_back(plan_.values[value].spec);
    request.output_needed.push_back(locations_[value].kind != Location::Kind::kNone);
  }
  request.op = step.op;
  request.attributes = &step.attributes;
  request.inputs = inputs;
  request.outputs = outputs;
  request.threads = request_.threads_per_device;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = request_.backend->create_kernel(request);
  if (kernel.ok()) return kernel;
  return absl::Status(kernel.status().code(),
                      absl::StrCat(step.name, " (", step.op, "): ", kernel.status().message()));
}

uint64_t Assembler::FirstExample(int clone_index) const {
  uint64_t first = 0;
  for (int i = 0; i < clone_index && i < static_cast<int>(request_.clone_examples.size()); ++i) {
    first += static_cast<uint64_t>(request_.clone_examples[i]);
  }
  return first;
}

// One wait per device: for the latest of the steps there that it needs.
void Assembler::AddWaits(const PlanStep& step, ProgramStep* program_step) {
  std::map<int, int> until;
  for (int value : step.inputs) {
    const PlanValue& root = plan_.values[RootOf(value)];
    if (root.source != ValueSource::kStep) continue;
    const auto [device, place] = position_[root.producer];
    if (device == step.device || plan_.steps[root.producer].op == "Constant") continue;
    int& last = until[program_device_[device]];
    last = std::max(last, place + 1);
  }
  for (const auto& [device, num_steps] : until) program_step->waits.push_back({device, num_steps});
}

// A constant is written once, when all is placed; its place in the order stays, doing nothing.
void Assembler::AddConstant(const PlanStep& step, DeviceProgram* program) {
  constants_.push_back({static_cast<int>(parts_.operands.size()),
                        plan_.values[step.outputs[0]].spec, step.attributes.GetDouble("value", 0)});
  AddOperand(step.outputs[0]);
  program->steps.emplace_back();
}

absl::Status Assembler::AddKernelStep(int step_index, DeviceProgram* program) {
  const PlanStep& step = plan_.steps[step_index];
  absl::StrAppend(&parts_.text, Describe(step, program->name));
  if (step.op == "Constant") {
    AddConstant(step, program);
    return absl::OkStatus();
  }
  ProgramStep program_step;
  ASSIGN_OR_RETURN(program_step.kernel, MakeKernel(step));
  program_step.operands = static_cast<int>(parts_.operands.size());
  program_step.num_inputs = static_cast<int>(step.inputs.size());
  for (int value : step.inputs) AddOperand(value);
  for (int value : step.outputs) AddOperand(value);
  program_step.first_example = FirstExample(step.clone_index);
  program_step.is_awaited = is_awaited_[step_index];
  AddWaits(step, &program_step);
  for (int value : step.outputs) {
    if (output_of_root_[value] >= 0) {
      program_step.finished_outputs.push_back(output_of_root_[value]);
    }
  }
  program->steps.push_back(std::move(program_step));
  return absl::OkStatus();
}

void Assembler::AddCopySteps(int device, DeviceProgram* program) {
  for (int fetch : copies_[device]) {
    const int value = plan_.fetches[fetch];
    ProgramStep step;
    step.operands = static_cast<int>(parts_.operands.size());
    step.num_inputs = 1;
    step.copy_bytes = plan_.values[value].spec.bytes();
    step.finished_outputs = {fetch};
    AddOperand(value);
    parts_.patches.push_back(
        {OperandPatch::Source::kOutput, fetch, static_cast<int>(parts_.operands.size())});
    parts_.operands.push_back(nullptr);
    absl::StrAppend(&parts_.text, program->name, " copy to output ", fetch, "\n");
    program->steps.push_back(std::move(step));
  }
}

absl::Status Assembler::MakeDevice(int device) {
  DeviceProgram program;
  program.name = request_.placer.devices[device].ToString();
  for (int step : order_[device]) RETURN_IF_ERROR(AddKernelStep(step, &program));
  AddCopySteps(device, &program);
  parts_.devices.push_back(std::move(program));
  return absl::OkStatus();
}

void Assembler::PlaceArenas() {
  std::vector<MemoryPlan> plans;
  for (size_t d = 0; d < order_.size(); ++d) {
    plans.push_back(PlanMemory(memory_[d]));
    if (program_device_[d] < 0) continue;
    DeviceProgram& device = parts_.devices[program_device_[d]];
    size_t workspace = 0;
    for (const ProgramStep& step : device.steps) {
      if (step.kernel != nullptr) workspace = std::max(workspace, step.kernel->workspace_bytes());
    }
    device.arena = Buffer(plans[d].total_bytes + workspace);
    device.workspace = static_cast<char*>(device.arena.data()) + plans[d].total_bytes;
  }
  for (const ArenaOperand& operand : arena_operands_) {
    char* arena = static_cast<char*>(parts_.devices[program_device_[operand.device]].arena.data());
    parts_.operands[operand.operand] = arena + plans[operand.device].offsets[operand.request];
  }
}

void Assembler::FillConstants() {
  for (const ConstantOperand& constant : constants_) {
    Fill(constant.spec, constant.value, parts_.operands[constant.operand]);
  }
}

std::string Assembler::Describe(const PlanStep& step, const std::string& device) const {
  std::string text = absl::StrCat(device, " ", step.name, " = ", step.op, "(");
  for (int value : step.inputs) absl::StrAppend(&text, plan_.values[value].spec.ToString(), " ");
  absl::StrAppend(&text, ") [", step.attributes.ToString(), "] ->");
  for (int value : step.outputs) {
    const bool is_needed = locations_[value].kind != Location::Kind::kNone;
    absl::StrAppend(&text, " ", is_needed ? plan_.values[value].spec.ToString() : "unused");
  }
  return text + "\n";
}

absl::StatusOr<std::unique_ptr<Executable>> Assembler::Assemble() {
  NumberSteps();
  BindFetches();
  LocateValues();
  parts_.reads_variable.assign(request_.graph->variables().size(), false);
  parts_.num_inputs = request_.feeds.size();
  parts_.set_threads = request_.backend->set_threads;
  parts_.threads_per_device = request_.threads_per_device;
  for (int fetch : plan_.fetches) parts_.output_specs.push_back(plan_.values[fetch].spec);
  int num_programs = 0;
  for (size_t d = 0; d < order_.size(); ++d) {
    const bool has_steps = !order_[d].empty() || !copies_[d].empty();
    program_device_.push_back(has_steps ? num_programs++ : -1);
  }
  for (size_t d = 0; d < order_.size(); ++d) {
    if (program_device_[d] >= 0) RETURN_IF_ERROR(MakeDevice(static_cast<int>(d)));
  }
  PlaceArenas();
  FillConstants();
  return std::make_unique<Program>(std::move(parts_));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executable>> Compile(const CompileRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<int> placement, PlaceNodes(*request.graph, request.placer));
  ASSIGN_OR_RETURN(Plan plan, MakePlan(request, placement));
  if (request.fuse) Fuse(*request.backend, &plan);
  if (request.choose_layouts && request.backend->supports_layout) {
    AssignLayouts(request.backend->supports_layout, &plan);
  }
  return Assembler(request, std::move(plan)).Assemble();
}

}  // namespace shoal
