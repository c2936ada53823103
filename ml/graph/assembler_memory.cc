// The part of the assembler that places values: in arenas, in the bindings of each run, and in the
// packed areas of devices with their own memory.
#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "ml/graph/assembler.h"

namespace shoal {
namespace {

// The alignment of values in packed areas, with which the libraries of devices are fastest.
constexpr size_t kPackedAlignment = 256;

size_t Padded(size_t bytes) {
  return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
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
    case DataType::kBfloat16:
      return FillWith<Bfloat16>(value, count, data);
  }
}

}  // namespace

// The step that computes a fetch writes it directly to the output. Feeds, variables, constants and
// values that are fetched twice are copied to the output at the end.
void Assembler::BindFetches() {
  output_of_root_.assign(plan_.values.size(), -1);
  copies_.resize(order_.size());
  for (size_t f = 0; f < plan_.fetches.size(); ++f) {
    const int root = plan_.FindRoot(plan_.fetches[f]);
    const PlanValue& value = plan_.values[root];
    const bool is_computed = value.source == ValueSource::kStep;
    if (is_computed && output_of_root_[root] < 0 && plan_.steps[value.producer].op != "Constant") {
      output_of_root_[root] = static_cast<int>(f);
    } else {
      copies_[is_computed ? plan_.steps[value.producer].device : FirstHostDevice()].push_back(
          static_cast<int>(f));
    }
  }
}

void Assembler::PlaceValue(int value, int device) {
  ValuePlace& place = places_[value];
  const PlanStep& step = plan_.steps[plan_.values[value].producer];
  const bool is_copied =
      std::any_of(copies_[device].begin(), copies_[device].end(),
                  [&](int fetch) { return plan_.FindRoot(plan_.fetches[fetch]) == value; });
  if (output_of_root_[value] >= 0) {
    place = {ValuePlace::Kind::kOutput, device, output_of_root_[value]};
    return;
  }
  if (consumers_[value].empty() && !is_copied) return;  // nobody needs this output
  MemoryDraft& memory = memory_[device];
  const size_t bytes = plan_.values[value].spec.bytes();
  if (step.op == kCopyToHost) {
    place = {ValuePlace::Kind::kStaging, device, static_cast<int>(memory.staging.size())};
    memory.staging.push_back(bytes);
    return;
  }
  const int at = position_[plan_.values[value].producer].second;
  const int end = static_cast<int>(order_[device].size());
  MemoryRequest request{bytes, at, at};
  for (int consumer : consumers_[value]) {
    const auto [reader, reader_at] = position_[consumer];
    // Copies to the host and sums of a group run beside the steps that follow them, late steps
    // after some of these.
    const bool is_in_order = reader == device && plan_.steps[consumer].op != kCopyToHost &&
                             plan_.steps[consumer].op != kGroupPart && !MayBeLate(consumer);
    request.last = std::max(request.last, is_in_order ? reader_at : end);
  }
  if (is_copied) request.last = end;
  if (step.op == "Constant") request = {bytes, 0, end};
  place = {ValuePlace::Kind::kArena, device, static_cast<int>(memory.arena.size())};
  memory.arena.push_back(request);
}

void Assembler::PlaceValues() {
  places_.assign(plan_.values.size(), {});
  for (size_t v = 0; v < plan_.values.size(); ++v) {
    const PlanValue& value = plan_.values[v];
    if (value.source == ValueSource::kFeed) {
      places_[v] = {ValuePlace::Kind::kInput, 0, value.index};
    } else if (value.source == ValueSource::kVariable) {
      places_[v] = {ValuePlace::Kind::kVariable, 0, value.index};
    }
  }
  for (size_t d = 0; d < order_.size(); ++d) {
    for (int step : order_[d]) {
      for (int value : plan_.steps[step].outputs) PlaceValue(value, static_cast<int>(d));
    }
  }
}

void Assembler::AddOperand(int value, int reader) {
  using Area = PlannedOperand::Area;
  const int root = plan_.FindRoot(value);
  const ValuePlace& place = places_[root];
  const int operand = static_cast<int>(parts_.operands.size());
  if (place.kind == ValuePlace::Kind::kOutput) return AddOutputOperand(place.index, place.device);
  parts_.operands.push_back(nullptr);
  const bool is_variable = place.kind == ValuePlace::Kind::kVariable;
  if (place.kind == ValuePlace::Kind::kArena) {
    planned_.push_back({operand, place.device, Area::kArena, place.index});
  } else if (place.kind == ValuePlace::Kind::kStaging) {
    planned_.push_back({operand, place.device, Area::kStaging, place.index});
  } else if (place.kind == ValuePlace::Kind::kInput || is_variable) {
    if (HasOwnMemory(reader)) {
      AddPackedInput(place, plan_.values[root].spec, reader, operand);
    } else {
      parts_.patches.push_back(
          {is_variable ? OperandPatch::Source::kVariable : OperandPatch::Source::kInput,
           place.index, operand});
    }
  }
}

void Assembler::AddPackedInput(const ValuePlace& place, const TensorSpec& spec, int reader,
                               int operand) {
  MemoryDraft& memory = memory_[reader];
  const bool is_variable = place.kind == ValuePlace::Kind::kVariable;
  const auto [known, is_new] =
      memory.input_of.insert({{is_variable, place.index}, static_cast<int>(memory.inputs.size())});
  if (is_new) {
    memory.inputs.push_back({is_variable, place.index, memory.input_bytes, spec.bytes()});
    memory.input_bytes += Padded(spec.bytes());
  }
  planned_.push_back({operand, reader, PlannedOperand::Area::kInputs, known->second});
}

void Assembler::AddOutputOperand(int fetch, int device) {
  const int operand = static_cast<int>(parts_.operands.size());
  parts_.operands.push_back(nullptr);
  if (HasOwnMemory(device)) {
    planned_.push_back({operand, device, PlannedOperand::Area::kOutputs, fetch});
  } else {
    parts_.patches.push_back({OperandPatch::Source::kOutput, fetch, operand});
  }
}

void Assembler::AddPackedOutput(int fetch, int device, int step) {
  MemoryDraft& memory = memory_[device];
  const size_t bytes = plan_.values[plan_.fetches[fetch]].spec.bytes();
  const PlanValue& value = plan_.values[plan_.FindRoot(plan_.fetches[fetch])];
  const bool is_group_sum =
      value.source == ValueSource::kStep && plan_.steps[value.producer].op == kGroupPart;
  memory.outputs.push_back({fetch, step, memory.output_bytes, bytes, is_group_sum});
  memory.output_bytes += Padded(bytes);
}

// Chooses an owner for each variable that the whole group reads, so that the owners upload about
// the same number of bytes. The choice and the order are the same for all devices.
void Assembler::ChooseOwners() {
  std::vector<size_t> load(plan_.group.size(), 0);
  for (size_t v = 0; v < request_.graph->variables().size(); ++v) {
    const std::pair<bool, int> key{true, static_cast<int>(v)};
    const bool all_read = std::all_of(plan_.group.begin(), plan_.group.end(), [&](int device) {
      return memory_[device].input_of.count(key) > 0;
    });
    if (!all_read) continue;
    const auto owner = std::min_element(load.begin(), load.end()) - load.begin();
    for (int device : plan_.group) {
      MemoryDraft& memory = memory_[device];
      const int input = memory.input_of.at(key);
      memory.inputs[input].owner = static_cast<int>(owner);
      memory.mirrored.push_back(input);
      if (device == plan_.group[owner]) load[owner] += memory.inputs[input].bytes;
    }
  }
}

void Assembler::PlaceHostMemory(int device) {
  DeviceProgram& program = program_of(device);
  const MemoryPlan plan = PlanMemory(memory_[device].arena);
  size_t workspace = 0;
  for (const ProgramStep& step : program.steps) {
    if (step.kernel != nullptr) workspace = std::max(workspace, step.kernel->workspace_bytes());
  }
  program.arena = Buffer(plan.total_bytes + workspace);
  char* arena = static_cast<char*>(program.arena.data());
  program.workspace = arena + plan.total_bytes;
  for (const PlannedOperand& planned : planned_) {
    if (planned.device != device) continue;
    parts_.operands[planned.operand] = arena + plan.offsets[planned.index];
  }
}

// Allocates, in device memory, the arena, the workspace, the inputs and the outputs; and in staging
// memory the inputs, the outputs, and the values that are copied to the host during a run.
absl::Status Assembler::PlaceDeviceMemory(int device) {
  DeviceProgram& program = program_of(device);
  const MemoryDraft& memory = memory_[device];
  const MemoryPlan plan = PlanMemory(memory.arena);
  size_t workspace = 0;
  for (const ProgramStep& step : program.steps) {
    if (step.kernel != nullptr) workspace = std::max(workspace, step.kernel->workspace_bytes());
  }
  const size_t workspace_at = Padded(plan.total_bytes);
  const size_t inputs_at = workspace_at + Padded(workspace);
  const size_t outputs_at = inputs_at + memory.input_bytes;
  std::vector<size_t> staged_at;
  size_t staging_bytes = memory.input_bytes + memory.output_bytes;
  for (size_t bytes : memory.staging) {
    staged_at.push_back(staging_bytes);
    staging_bytes += Padded(bytes);
  }
  program.device->Activate();
  ASSIGN_OR_RETURN(program.memory,
                   DeviceMemory::Allocate(program.device, outputs_at + memory.output_bytes));
  ASSIGN_OR_RETURN(program.staging, DeviceMemory::AllocateStaging(program.device, staging_bytes));
  char* data = program.memory.data();
  program.workspace = data + workspace_at;
  std::map<int, size_t> output_at;  // by fetch
  for (const PackedOutput& output : memory.outputs) output_at[output.index] = output.offset;
  for (const PlannedOperand& planned : planned_) {
    if (planned.device != device) continue;
    void*& operand = parts_.operands[planned.operand];
    switch (planned.area) {
      case PlannedOperand::Area::kArena:
        operand = data + plan.offsets[planned.index];
        break;
      case PlannedOperand::Area::kStaging:
        operand = program.staging.data() + staged_at[planned.index];
        break;
      case PlannedOperand::Area::kInputs:
        operand = data + inputs_at + memory.inputs[planned.index].offset;
        break;
      case PlannedOperand::Area::kOutputs:
        operand = data + outputs_at + output_at.at(planned.index);
        break;
    }
  }
  DeviceTransfersOptions transfers;
  transfers.device = program.device.get();
  transfers.device_inputs = data + inputs_at;
  transfers.device_outputs = data + outputs_at;
  transfers.staged_inputs = program.staging.data();
  transfers.staged_outputs = program.staging.data() + memory.input_bytes;
  transfers.inputs = memory.inputs;
  transfers.outputs = memory.outputs;
  transfers.group = program.group.get();
  transfers.rank = program.rank;
  transfers.mirrored = memory.mirrored;
  ASSIGN_OR_RETURN(program.transfers, DeviceTransfers::Create(std::move(transfers)));
  return absl::OkStatus();
}

absl::Status Assembler::PlaceMemory() {
  for (size_t d = 0; d < order_.size(); ++d) {
    const int device = static_cast<int>(d);
    if (program_device_[d] < 0) continue;
    if (HasOwnMemory(device)) {
      RETURN_IF_ERROR(PlaceDeviceMemory(device));
    } else {
      PlaceHostMemory(device);
    }
  }
  return absl::OkStatus();
}

absl::Status Assembler::FillConstants() {
  for (const ConstantOperand& constant : constants_) {
    void* data = parts_.operands[constant.operand];
    if (!HasOwnMemory(constant.device)) {
      Fill(constant.spec, constant.value, data);
      continue;
    }
    Device& device = *program_of(constant.device).device;
    Buffer host(constant.spec.bytes());
    Fill(constant.spec, constant.value, host.data());
    device.Activate();
    device.CopyFromHost(data, host.data(), constant.spec.bytes());
    RETURN_IF_ERROR(device.Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace shoal
