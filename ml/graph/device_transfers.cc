#include "ml/graph/device_transfers.h"

#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<DeviceTransfers>> DeviceTransfers::Create(
    DeviceTransfersOptions options) {
  std::unique_ptr<DeviceTransfers> transfers(new DeviceTransfers(std::move(options)));
  transfers->versions_.assign(transfers->options_.inputs.size(), 0);
  transfers->is_new_.assign(transfers->options_.inputs.size(), false);
  if (!transfers->options_.mirrored.empty()) {
    Device& device = *transfers->options_.device;
    ASSIGN_OR_RETURN(transfers->uploaded_, device.NewEvent());
    ASSIGN_OR_RETURN(transfers->mirrored_, device.NewEvent());
  }
  RETURN_IF_ERROR(transfers->MakeGroups());
  return transfers;
}

absl::Status DeviceTransfers::MakeGroups() {
  size_t begin = 0;
  size_t bytes = 0;
  bool has_group_sum = false;
  for (size_t i = 0; i < options_.outputs.size(); ++i) {
    bytes += options_.outputs[i].bytes;
    has_group_sum |= options_.outputs[i].is_group_sum;
    if (bytes < options_.piece_bytes && i + 1 < options_.outputs.size()) continue;
    Group group{begin, i + 1, options_.outputs[i].step, has_group_sum, nullptr, nullptr, nullptr};
    ASSIGN_OR_RETURN(group.computed, options_.device->NewEvent());
    ASSIGN_OR_RETURN(group.summed, options_.device->NewEvent());
    ASSIGN_OR_RETURN(group.arrived, options_.device->NewEvent());
    groups_.push_back(std::move(group));
    begin = i + 1;
    bytes = 0;
    has_group_sum = false;
  }
  return absl::OkStatus();
}

bool DeviceTransfers::TakeVersion(size_t i, const RunBindings& bindings) {
  const PackedInput& input = options_.inputs[i];
  if (!input.is_variable || bindings.variable_versions.empty()) {
    versions_[i] = 0;
    return true;
  }
  const uint64_t version = bindings.variable_versions[input.index];
  if (version != 0 && version == versions_[i]) return false;
  versions_[i] = version;
  return true;
}

void DeviceTransfers::StartUpload(const RunBindings& bindings) {
  next_group_ = 0;
  size_t begin = 0, end = 0;  // the bytes that are staged but not sent
  const auto send = [&] {
    if (end == begin) return;
    options_.device->CopyFromHost(options_.device_inputs + begin, options_.staged_inputs + begin,
                                  end - begin);
  };
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    const PackedInput& input = options_.inputs[i];
    is_new_[i] = TakeVersion(i, bindings);
    if (!is_new_[i] || (input.owner >= 0 && input.owner != options_.rank)) {
      send();
      begin = end = 0;
      continue;
    }
    const void* bound =
        input.is_variable ? bindings.variables[input.index] : bindings.inputs[input.index];
    CHECK(bound != nullptr) << "binding " << input.index << " is null but used";
    std::memcpy(options_.staged_inputs + input.offset, bound, input.bytes);
    if (end == begin) begin = input.offset;
    end = input.offset + input.bytes;
    if (end - begin < options_.piece_bytes) continue;
    send();
    begin = end = 0;
  }
  send();
  Mirror();
}

void DeviceTransfers::Mirror() {
  using Queue = Device::Queue;
  Device& device = *options_.device;
  bool any = false;
  for (int i : options_.mirrored) {
    if (!is_new_[i]) continue;
    const PackedInput& input = options_.inputs[i];
    if (!any) {
      device.Record(Queue::kCompute, uploaded_.get());
      device.Await(Queue::kGroup, *uploaded_);
      options_.group->StartBatch(options_.rank);
    }
    any = true;
    options_.group->Broadcast(options_.rank, input.owner, options_.device_inputs + input.offset,
                              input.bytes);
  }
  if (!any) return;
  options_.group->EndBatch(options_.rank);
  device.Record(Queue::kGroup, mirrored_.get());
  device.Await(Queue::kCompute, *mirrored_);
}

void DeviceTransfers::StartDownload(Group* group) {
  using Queue = Device::Queue;
  Device& device = *options_.device;
  const size_t begin = options_.outputs[group->begin].offset;
  const PackedOutput& last = options_.outputs[group->end - 1];
  device.Record(Queue::kCompute, group->computed.get());
  device.Await(Queue::kDownload, *group->computed);
  if (group->has_group_sum) {
    device.Record(Queue::kGroup, group->summed.get());
    device.Await(Queue::kDownload, *group->summed);
  }
  device.CopyToHost(Queue::kDownload, options_.staged_outputs + begin,
                    options_.device_outputs + begin, last.offset + last.bytes - begin);
}

void DeviceTransfers::AfterStep(int step) {
  for (; next_group_ < groups_.size() && groups_[next_group_].last_step == step; ++next_group_) {
    Group& group = groups_[next_group_];
    StartDownload(&group);
    options_.device->Record(Device::Queue::kDownload, group.arrived.get());
  }
}

void DeviceTransfers::RecordAfterStep(int step) {
  for (Group& group : groups_) {
    if (group.last_step == step && !group.has_group_sum) StartDownload(&group);
  }
}

void DeviceTransfers::AfterReplay() {
  for (Group& group : groups_) {
    if (group.has_group_sum) StartDownload(&group);
    options_.device->Record(
        group.has_group_sum ? Device::Queue::kDownload : Device::Queue::kCompute,
        group.arrived.get());
  }
}

absl::Status DeviceTransfers::HandOut(const RunBindings& bindings,
                                      absl::FunctionRef<absl::Status()> check,
                                      Executable::OnFinal on_final) {
  for (Group& group : groups_) {
    RETURN_IF_ERROR(group.arrived->Wait());
    RETURN_IF_ERROR(check());
    for (size_t i = group.begin; i < group.end; ++i) {
      const PackedOutput& output = options_.outputs[i];
      std::memcpy(bindings.outputs[output.index], options_.staged_outputs + output.offset,
                  output.bytes);
      on_final(output.index, Executable::kAll);
    }
  }
  return absl::OkStatus();
}

// The queues must be empty even after an error, because work in them uses kernels and memory that
// the caller may free.
void DeviceTransfers::Finish(const RunBindings& bindings, absl::FunctionRef<absl::Status()> check,
                             absl::FunctionRef<void(const absl::Status&)> fail,
                             Executable::OnFinal on_final) {
  absl::Status status = check();
  if (status.ok()) status = HandOut(bindings, check, on_final);
  if (!status.ok()) fail(status);
  const absl::Status synchronized = options_.device->Synchronize();
  if (status.ok() && !synchronized.ok()) fail(synchronized);
}

}  // namespace shoal
