#include "ml/graph/assembler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {

Assembler::Assembler(const CompileRequest& request, const DeviceBackends& backends, Plan plan)
    : request_(request),
      backends_(backends),
      plan_(std::move(plan)),
      order_(Schedule(plan_, static_cast<int>(request.placer.devices.size()))),
      memory_(order_.size()) {
  OrderGroupParts(plan_, &order_);
}

int Assembler::FirstHostDevice() const {
  for (size_t d = 0; d < backends_.size(); ++d) {
    if (!HasOwnMemory(static_cast<int>(d))) return static_cast<int>(d);
  }
  return 0;
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
      const int root = plan_.FindRoot(value);
      consumers_[root].push_back(static_cast<int>(s));
      const PlanValue& produced = plan_.values[root];
      if (produced.source == ValueSource::kStep &&
          plan_.steps[produced.producer].device != plan_.steps[s].device) {
        is_awaited_[produced.producer] = true;
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> Assembler::MakeKernel(const PlanStep& step,
                                                              Device* device) const {
  std::vector<TensorSpec> inputs, outputs;
  KernelRequest request;
  for (int value : step.inputs) inputs.push_back(plan_.values[value].spec);
  for (int value : step.outputs) {
    outputs.push_back(plan_.values[value].spec);
    request.output_needed.push_back(places_[value].kind != ValuePlace::Kind::kNone);
  }
  request.op = step.op;
  request.attributes = &step.attributes;
  request.inputs = inputs;
  request.outputs = outputs;
  request.threads = request_.threads_per_device;
  request.device = device;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = backends_[step.device]->create_kernel(request);
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

// Adds one wait per device, for the latest of the steps on that device that the step needs.
void Assembler::AddWaits(const PlanStep& step, ProgramStep* program_step) {
  std::map<int, int> until;
  for (int value : step.inputs) {
    const PlanValue& root = plan_.values[plan_.FindRoot(value)];
    if (root.source != ValueSource::kStep) continue;
    const auto [device, place] = position_[root.producer];
    if (device == step.device || plan_.steps[root.producer].op == "Constant") continue;
    int& last = until[program_device_[device]];
    last = std::max(last, place + 1);
  }
  for (const auto& [device, num_steps] : until) program_step->waits.push_back({device, num_steps});
}

bool Assembler::MayBeLate(int step_index) const {
  const PlanStep& step = plan_.steps[step_index];
  if (HasOwnMemory(step.device)) return false;
  for (int value : step.outputs) {
    if (output_of_root_[value] < 0 || !consumers_[value].empty()) return false;
    const std::vector<int>& copies = copies_[step.device];
    if (std::any_of(copies.begin(), copies.end(),
                    [&](int fetch) { return plan_.FindRoot(plan_.fetches[fetch]) == value; })) {
      return false;
    }
  }
  return std::any_of(step.inputs.begin(), step.inputs.end(), [&](int value) {
    const PlanValue& root = plan_.values[plan_.FindRoot(value)];
    return root.source == ValueSource::kStep && position_[root.producer].first != step.device;
  });
}

// A constant is written once, when all memory is allocated. Its step stays in the order but does
// nothing.
void Assembler::AddConstant(const PlanStep& step, DeviceProgram* program) {
  constants_.push_back({static_cast<int>(parts_.operands.size()), step.device,
                        plan_.values[step.outputs[0]].spec, step.attributes.GetDouble("value", 0)});
  AddOperand(step.outputs[0], step.device);
  program->steps.emplace_back();
}

// Sets the direction of a copy between memories; other steps have a kernel.
void Assembler::SetCopy(const PlanStep& step, ProgramStep* program_step) const {
  program_step->copy_bytes = plan_.values[step.outputs[0]].spec.bytes();
  if (step.op == kCopyToHost) program_step->copy = ProgramStep::Copy::kToHost;
  if (step.op == kCopyFromHost) program_step->copy = ProgramStep::Copy::kFromHost;
  if (step.op == kGroupPart) {
    program_step->copy = ProgramStep::Copy::kGroupPart;
    program_step->root = static_cast<int>(step.attributes.GetInt("root", 0));
  }
  if (step.op == kCopyFromPeer) {
    const PlanValue& root = plan_.values[plan_.FindRoot(step.inputs[0])];
    program_step->copy = ProgramStep::Copy::kFromPeer;
    program_step->peer = program_device_[position_[root.producer].first];
  }
}

absl::Status Assembler::AddEvents(const DeviceProgram& program, ProgramStep* step) const {
  if (program.device == nullptr) return absl::OkStatus();
  if (step->is_awaited) {
    ASSIGN_OR_RETURN(step->done, program.device->NewEvent());
  }
  if (step->copy == ProgramStep::Copy::kToHost || step->copy == ProgramStep::Copy::kGroupPart) {
    ASSIGN_OR_RETURN(step->computed, program.device->NewEvent());
  }
  return absl::OkStatus();
}

absl::Status Assembler::AddStep(int step_index, int device, DeviceProgram* program) {
  const PlanStep& step = plan_.steps[step_index];
  absl::StrAppend(&parts_.text, Describe(step, program->name));
  if (step.op == "Constant") {
    AddConstant(step, program);
    return absl::OkStatus();
  }
  ProgramStep program_step;
  if (step.op == kCopyToHost || step.op == kCopyFromHost || step.op == kCopyFromPeer ||
      step.op == kGroupPart) {
    SetCopy(step, &program_step);
  } else {
    ASSIGN_OR_RETURN(program_step.kernel, MakeKernel(step, program->device.get()));
  }
  program_step.operands = static_cast<int>(parts_.operands.size());
  program_step.num_inputs = static_cast<int>(step.inputs.size());
  for (int value : step.inputs) AddOperand(value, device);
  for (int value : step.outputs) AddOperand(value, device);
  program_step.first_example = FirstExample(step.clone_index);
  program_step.is_awaited = is_awaited_[step_index];
  AddWaits(step, &program_step);
  program_step.may_be_late = MayBeLate(step_index);
  if (program_step.may_be_late) program->late.reserve(program->late.capacity() + 1);
  RETURN_IF_ERROR(AddEvents(*program, &program_step));
  for (int value : step.outputs) {
    program_step.fetch_of_output.push_back(output_of_root_[value]);
    if (output_of_root_[value] < 0) continue;
    AddFinishedOutput(output_of_root_[value], device, static_cast<int>(program->steps.size()),
                      &program_step);
  }
  program->steps.push_back(std::move(program_step));
  return absl::OkStatus();
}

void Assembler::AddFinishedOutput(int fetch, int device, int step, ProgramStep* program_step) {
  if (HasOwnMemory(device)) {
    AddPackedOutput(fetch, device, step);
  } else {
    program_step->finished_outputs.push_back(fetch);
  }
}

void Assembler::AddFetchCopies(int device, DeviceProgram* program) {
  for (int fetch : copies_[device]) {
    const int value = plan_.fetches[fetch];
    ProgramStep step;
    step.operands = static_cast<int>(parts_.operands.size());
    step.num_inputs = 1;
    step.copy_bytes = plan_.values[value].spec.bytes();
    AddOperand(value, device);
    AddOutputOperand(fetch, device);
    AddFinishedOutput(fetch, device, static_cast<int>(program->steps.size()), &step);
    absl::StrAppend(&parts_.text, program->name, " copy to output ", fetch, "\n");
    program->steps.push_back(std::move(step));
  }
}

absl::Status Assembler::OpenDevice(int device, DeviceProgram* program) const {
  const DeviceSpec& spec = request_.placer.devices[device];
  program->name = spec.ToString();
  program->set_threads = backends_[device]->set_threads;
  if (!HasOwnMemory(device)) return absl::OkStatus();
  ASSIGN_OR_RETURN(program->device, backends_[device]->open_device(spec.device_index.value_or(0)));
  program->device->Activate();
  return absl::OkStatus();
}

absl::Status Assembler::MakeDevice(int device) {
  DeviceProgram program;
  RETURN_IF_ERROR(OpenDevice(device, &program));
  for (int step : order_[device]) RETURN_IF_ERROR(AddStep(step, device, &program));
  AddFetchCopies(device, &program);
  parts_.devices.push_back(std::move(program));
  return absl::OkStatus();
}

std::string Assembler::WhyNotRecorded(int device) {
  for (int s : order_[device]) {
    const PlanStep& step = plan_.steps[s];
    if (DrawsRandomNumbers(step)) {
      return absl::StrCat(step.name, " (", step.op, ") draws new random numbers in every run");
    }
    const ProgramStep& program_step = program_of(device).steps[position_[s].second];
    if (program_step.waits.empty()) continue;
    return absl::StrCat(step.name, " (", step.op, ") waits for ",
                        parts_.devices[program_step.waits[0].device].name);
  }
  return "";
}

void Assembler::ChooseRecorded() {
  for (size_t d = 0; d < order_.size(); ++d) {
    const int device = static_cast<int>(d);
    if (program_device_[d] < 0 || !HasOwnMemory(device)) continue;
    const std::string reason = WhyNotRecorded(device);
    program_of(device).may_record = reason.empty();
    if (!reason.empty()) {
      LOG(INFO) << program_of(device).name << " does not replay its steps: " << reason;
    }
  }
}

void Assembler::JoinGroup() {
  for (size_t rank = 0; rank < plan_.group.size(); ++rank) {
    program_of(plan_.group[rank]).group = plan_.device_group;
    program_of(plan_.group[rank]).rank = static_cast<int>(rank);
  }
  if (!plan_.group.empty()) ChooseOwners();
}

std::string Assembler::Describe(const PlanStep& step, const std::string& device) const {
  std::string text = absl::StrCat(device, " ", step.name, " = ", step.op, "(");
  for (int value : step.inputs) absl::StrAppend(&text, plan_.values[value].spec.ToString(), " ");
  absl::StrAppend(&text, ") [", step.attributes.ToString(), "] ->");
  for (int value : step.outputs) {
    const bool is_needed = places_[value].kind != ValuePlace::Kind::kNone;
    absl::StrAppend(&text, " ", is_needed ? plan_.values[value].spec.ToString() : "unused");
  }
  return text + "\n";
}

absl::StatusOr<std::unique_ptr<Executable>> Assembler::Assemble() {
  NumberSteps();
  BindFetches();
  PlaceValues();
  parts_.num_inputs = request_.feeds.size();
  parts_.num_variables = request_.graph->variables().size();
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
  JoinGroup();
  if (request_.record_steps) ChooseRecorded();
  RETURN_IF_ERROR(PlaceMemory());
  RETURN_IF_ERROR(FillConstants());
  return std::make_unique<Program>(std::move(parts_));
}

absl::StatusOr<std::unique_ptr<Executable>> Assemble(const CompileRequest& request,
                                                     const DeviceBackends& backends, Plan plan) {
  return Assembler(request, backends, std::move(plan)).Assemble();
}

}  // namespace shoal
