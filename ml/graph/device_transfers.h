// Uploads a run's bindings to a device with its own memory and downloads its outputs. All uploads
// are packed into one staging area. Outputs are downloaded in groups, each as soon as it is final.
// Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_DEVICE_TRANSFERS_H_
#define SHOAL_ML_GRAPH_DEVICE_TRANSFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "ml/device/device.h"
#include "ml/device/device_group.h"
#include "ml/graph/executable.h"

namespace shoal {

// The position of a binding in the packed area; offset and size are in bytes.
struct PackedInput {
  bool is_variable;  // false: a feed
  int index;
  size_t offset, bytes;
  // The rank that uploads it for the whole group; -1: each device uploads it itself.
  int owner = -1;
};
struct PackedOutput {
  int index;  // index of the fetch
  int step;   // the device's step after which the output is final
  size_t offset, bytes;
  bool is_group_sum = false;
};

struct DeviceTransfersOptions {
  Device* device = nullptr;
  // The packed areas of inputs and outputs, on the device and in staging memory. Borrowed.
  char *device_inputs = nullptr, *device_outputs = nullptr;
  char *staged_inputs = nullptr, *staged_outputs = nullptr;
  std::vector<PackedInput> inputs;    // sorted by offset
  std::vector<PackedOutput> outputs;  // sorted by step and, equivalently, by offset
  // The device's group; null if it has none.
  DeviceGroup* group = nullptr;
  int rank = -1;
  // Indices of the inputs that have an owner, in the same order on all devices of the group.
  std::vector<int> mirrored;
  // The minimum size in bytes of one upload or download; smaller values are combined.
  size_t piece_bytes = size_t{1} << 20;
};

// Only the device's thread may use it.
class DeviceTransfers {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceTransfers>> Create(DeviceTransfersOptions options);

  // Copies the bindings into staging memory and enqueues their upload before the run's first step.
  // Skips variables of which the device has the current version.
  void StartUpload(const RunBindings& bindings);
  // Call this after the device's step was enqueued. Starts the downloads of the groups whose last
  // output is computed by this step.
  void AfterStep(int step);
  // RecordAfterStep replaces AfterStep while the steps are recorded; it leaves out the downloads of
  // group sums. AfterReplay starts these. Call it after each replay, when the parts of the group
  // sums have been enqueued.
  void RecordAfterStep(int step);
  void AfterReplay();
  // Waits for the downloads in their order, copies each output to its binding and calls `on_final`
  // for it. Calls `check` first and after each download; `check` returns an error if anything that
  // the outputs may depend on has failed. After an error of `check` or of this device, `on_final`
  // is not called again, and `fail` receives the error, so that the other devices of the group do
  // not wait for this one. The device's queues are empty when this returns.
  void Finish(const RunBindings& bindings, absl::FunctionRef<absl::Status()> check,
              absl::FunctionRef<void(const absl::Status&)> fail, Executable::OnFinal on_final);

 private:
  struct Group {
    size_t begin, end;  // indices in options_.outputs
    int last_step;
    bool has_group_sum;
    std::unique_ptr<Device::Event> computed, summed, arrived;
  };

  explicit DeviceTransfers(DeviceTransfersOptions options) : options_(std::move(options)) {}
  absl::Status MakeGroups();
  void StartDownload(Group* group);
  // Returns whether the device needs a new copy of the input, and records that it has the binding's
  // version afterwards.
  bool TakeVersion(size_t input, const RunBindings& bindings);
  // Broadcasts changed inputs from their owners to the other devices of the group, before the first
  // step.
  void Mirror();
  absl::Status HandOut(const RunBindings& bindings, absl::FunctionRef<absl::Status()> check,
                       Executable::OnFinal on_final);

  const DeviceTransfersOptions options_;
  std::vector<Group> groups_;  // ordered by last_step
  size_t next_group_ = 0;      // the first group of this run that is not started yet
  // Indexed by input: the version that the device has, 0 if not known.
  std::vector<uint64_t> versions_;
  std::vector<bool> is_new_;  // indexed by input, for this run
  std::unique_ptr<Device::Event> uploaded_, mirrored_;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_DEVICE_TRANSFERS_H_
