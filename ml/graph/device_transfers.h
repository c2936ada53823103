// Carries a run's bindings to a device with memory of its own and its outputs back: everything that
// goes up is packed into one staging area, outputs come down in groups, each as soon as it is
// final. Private to ml/graph.
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

// The place of a binding's bytes in the packed areas.
struct PackedInput {
  bool is_variable;  // else a feed
  int index;
  size_t offset, bytes;
  int owner = -1;  // the rank of the group that uploads it for all; -1: each device for itself
};
struct PackedOutput {
  int index;  // of the fetch
  int step;   // step of the device after which it is final
  size_t offset, bytes;
  bool is_group_sum = false;
};

struct DeviceTransfersOptions {
  Device* device = nullptr;
  // On the device and in staging memory: inputs at `inputs`, outputs at `outputs`.
  char *device_inputs = nullptr, *device_outputs = nullptr;
  char *staged_inputs = nullptr, *staged_outputs = nullptr;
  std::vector<PackedInput> inputs;    // by offset
  std::vector<PackedOutput> outputs;  // sorted by step, which is by offset
  // The group of devices; null without one.
  DeviceGroup* group = nullptr;
  int rank = -1;
  std::vector<int> mirrored;  // inputs with an owner, in the group's order
  // Uploads start, and outputs come down, when so much is together.
  size_t piece_bytes = size_t{1} << 20;
};

// Used by the device's thread.
class DeviceTransfers {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceTransfers>> Create(DeviceTransfersOptions options);

  // Copies the bindings into staging memory and puts their upload before the run's first step; not
  // those of variables whose version the device has.
  void StartUpload(const RunBindings& bindings);
  // The device's step has been put into its queue: groups that end with it start down.
  void AfterStep(int step);
  // The same while steps are recorded; sums of a group stay out. After each replay, and after the
  // group's parts: what AfterStep has not done.
  void RecordAfterStep(int step);
  void AfterReplay();
  // Waits for the groups in their order and calls `on_final` for each output once its bytes are in
  // place. `check` is called first and after each download; it returns an error if anything that
  // the group may depend on has failed. After an error of `check` or of this device, `on_final` is
  // not called again, and `fail` receives the error, so that the other devices of the group do not
  // wait for this one. The queues are empty afterwards.
  void Finish(const RunBindings& bindings, absl::FunctionRef<absl::Status()> check,
              absl::FunctionRef<void(const absl::Status&)> fail, Executable::OnFinal on_final);

 private:
  struct Group {
    size_t begin, end;  // of options_.outputs
    int last_step;
    bool has_group_sum;
    std::unique_ptr<Device::Event> computed, summed, arrived;
  };

  explicit DeviceTransfers(DeviceTransfersOptions options) : options_(std::move(options)) {}
  absl::Status MakeGroups();
  void StartDownload(Group* group);
  // Returns whether the device's copy is older, and records that it is current from here on.
  bool TakeVersion(size_t input, const RunBindings& bindings);
  // Copies changed inputs from their owner to the group's other devices, before the first step.
  void Mirror();
  absl::Status HandOut(const RunBindings& bindings, absl::FunctionRef<absl::Status()> check,
                       Executable::OnFinal on_final);

  const DeviceTransfersOptions options_;
  std::vector<Group> groups_;  // in the order of last_step
  size_t next_group_ = 0;      // the first group of this run that is not started yet
  std::vector<uint64_t>
      versions_;              // indexed by input: the version that the device has, 0 if not known
  std::vector<bool> is_new_;  // indexed by input, for this run
  std::unique_ptr<Device::Event> uploaded_, mirrored_;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_DEVICE_TRANSFERS_H_
