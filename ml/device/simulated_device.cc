#include "ml/device/simulated_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/executor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "ml/device/device.h"
#include "ml/device/device_group.h"
#include "ml/device/simulated_group.h"
#include "ml/device/simulated_memory.h"

namespace shoal {
namespace {

using simulated::OfHost;
using simulated::Tagged;
using simulated::Untagged;

constexpr int kNoise = 0xe4;

class SimulatedEvent final : public Device::Event {
 public:
  explicit SimulatedEvent(std::function<absl::Status()> status) : status_(std::move(status)) {}

  absl::Status Wait() override {
    WaitFor(num_recorded());
    return status_();
  }
  bool HasPassed() override {
    MutexLock lock(&mutex_);
    return num_reached_ == num_recorded_;
  }
  int64_t num_recorded() const {
    MutexLock lock(&mutex_);
    return num_recorded_;
  }
  int64_t Announce() {
    MutexLock lock(&mutex_);
    return ++num_recorded_;
  }
  void Reach(int64_t record) {
    MutexLock lock(&mutex_);
    num_reached_ = record;
    // The lock is held, because a thread that waits may destroy this at once.
    changed_.NotifyAll();
  }
  void WaitFor(int64_t record) const {
    MutexLock lock(&mutex_);
    while (num_reached_ < record) changed_.Wait(&mutex_);
  }

 private:
  const std::function<absl::Status()> status_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  int64_t num_recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_reached_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The recorded calls, which can be repeated.
struct SimulatedRecording final : Device::Recording {
  std::vector<std::function<void()>> calls;
  std::set<const Device::Event*> events;
  absl::Status status;
};

class SimulatedDevice final : public Device, public SimulatedRank {
 public:
  SimulatedDevice(SimulatedTraffic* traffic, const SimulatedDeviceOptions& options)
      : traffic_(*traffic),
        failing_kernel_(options.failing_kernel),
        has_recordings_(options.has_recordings) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(data, kNoise, bytes);
    traffic_.allocated_bytes += static_cast<int64_t>(bytes);
    return Tagged(data);
  }
  void Free(void* data) override { std::free(Untagged(data)); }
  absl::StatusOr<void*> AllocateStaging(size_t bytes) override {
    void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(data, kNoise, bytes);
    return data;
  }
  void FreeStaging(void* data) override { std::free(OfHost(data)); }

  void Activate() override {}
  void* stream() override { return this; }

  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    if (IsRecorded([=] { CopyFromHost(to, from, bytes); })) return;
    ++traffic_.uploads;
    traffic_.uploaded_bytes += static_cast<int64_t>(bytes);
    Copy(Queue::kCompute, Untagged(to), OfHost(from), bytes);
  }
  void CopyToHost(Queue queue, void* to, const void* from, size_t bytes) override {
    if (IsRecorded([=] { CopyToHost(queue, to, from, bytes); })) return;
    ++traffic_.downloads;
    Copy(queue, OfHost(to), Untagged(from), bytes);
  }
  void CopyWithin(void* to, const void* from, size_t bytes) override {
    if (IsRecorded([=] { CopyWithin(to, from, bytes); })) return;
    Copy(Queue::kCompute, Untagged(to), Untagged(from), bytes);
  }
  void CopyFromPeer(void* to, Device& peer, const void* from, size_t bytes) override {
    CHECK(&peer != this);
    CHECK(recording_ == nullptr) << "a recording is of one device";
    ++traffic_.peer_copies;
    Copy(Queue::kCompute, Untagged(to), Untagged(from), bytes);
  }

  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override {
    return {std::make_unique<SimulatedEvent>([this] { return status(); })};
  }
  void Record(Queue queue, Event* event) override {
    if (IsRecorded([=] { Record(queue, event); })) {
      recording_->events.insert(event);
      return;
    }
    auto* simulated = static_cast<SimulatedEvent*>(event);
    const int64_t record = simulated->Announce();
    Enqueue(queue, [simulated, record] { simulated->Reach(record); });
  }
  void Await(Queue queue, const Event& event) override {
    if (IsRecorded([this, queue, &event] { Await(queue, event); })) {
      if (recording_->events.count(&event) > 0) return;
      recording_->status = absl::FailedPreconditionError("it waits for what is not recorded");
      return;
    }
    const auto* simulated = static_cast<const SimulatedEvent*>(&event);
    const int64_t record = simulated->num_recorded();
    Enqueue(queue, [simulated, record] { simulated->WaitFor(record); });
  }
  absl::Status StartRecording() override {
    if (!has_recordings_) return absl::UnimplementedError("simulated devices do not record here");
    RETURN_IF_ERROR(Synchronize());
    recording_ = std::make_unique<SimulatedRecording>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Recording>> FinishRecording() override {
    std::unique_ptr<SimulatedRecording> recording = std::move(recording_);
    RETURN_IF_ERROR(recording->status);
    return {std::move(recording)};
  }
  void Replay(Recording* recording) override {
    ++traffic_.replays;
    for (const auto& call : static_cast<SimulatedRecording*>(recording)->calls) call();
    Record(Queue::kDownload, &replayed_);
    Await(Queue::kCompute, replayed_);
  }

  absl::Status Synchronize() override {
    CHECK(recording_ == nullptr) << "a recording cannot be waited for";
    for (Queue queue : {Queue::kCompute, Queue::kGroup, Queue::kDownload}) {
      SimulatedEvent event([] { return absl::OkStatus(); });
      Record(queue, &event);
      RETURN_IF_ERROR(event.Wait());
    }
    return status();
  }
  absl::Status status() override {
    MutexLock lock(&mutex_);
    return status_;
  }

  void Enqueue(Queue queue, absl::AnyInvocable<void()> work) {
    SerialExecutor& executor = queue == Queue::kCompute    ? compute_
                               : queue == Queue::kDownload ? download_
                                                           : group_;
    executor.Post(std::move(work));
  }
  void Launch(const std::function<void()>& kernel) {
    if (!IsRecorded([=] { Launch(kernel); })) Enqueue(Queue::kCompute, kernel);
  }
  // Called in the compute queue. Returns whether the kernel should run.
  bool StartKernel() {
    if (traffic_.kernels++ != failing_kernel_) return true;
    Fail("the simulated device has failed");
    return false;
  }
  void EnqueueGroupCall(absl::AnyInvocable<void()> work) override {
    Enqueue(Queue::kGroup, std::move(work));
  }
  void Fail(absl::string_view message) override {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = absl::InternalError(message);
  }

 private:
  void Copy(Queue queue, void* to, const void* from, size_t bytes) {
    Enqueue(queue, [=] { std::memcpy(to, from, bytes); });
  }
  bool IsRecorded(std::function<void()> call) {
    if (recording_ == nullptr) return false;
    recording_->calls.push_back(std::move(call));
    return true;
  }

  SimulatedTraffic& traffic_;
  const int64_t failing_kernel_;
  const bool has_recordings_;
  std::unique_ptr<SimulatedRecording> recording_;  // under way
  SimulatedEvent replayed_{[] { return absl::OkStatus(); }};
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  SerialExecutor compute_{"compute"}, download_{"download"}, group_{"group"};
};

// Enqueues the inner kernel with addresses that the host can access.
class SimulatedKernel final : public Kernel {
 public:
  SimulatedKernel(std::unique_ptr<Kernel> inner, size_t num_inputs, size_t num_outputs)
      : inner_(std::move(inner)), num_inputs_(num_inputs), num_outputs_(num_outputs) {}

  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  void Run(const KernelContext& context) override {
    auto* device = static_cast<SimulatedDevice*>(context.stream);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t i = 0; i < num_inputs_; ++i) inputs.push_back(Untagged(context.inputs[i]));
    for (size_t i = 0; i < num_outputs_; ++i) outputs.push_back(Untagged(context.outputs[i]));
    void* workspace = workspace_bytes() == 0 ? nullptr : Untagged(context.workspace);
    device->Launch([this, device, inputs, outputs, workspace, key = context.key] {
      if (!device->StartKernel()) return;
      KernelContext inner;
      inner.inputs = inputs.data();
      inner.outputs = outputs.data();
      inner.workspace = workspace;
      inner.key = key;
      inner_->Run(inner);
    });
  }

 private:
  const std::unique_ptr<Kernel> inner_;
  const size_t num_inputs_, num_outputs_;
};

bool CanHaveOutputs(absl::string_view op, absl::Span<const TensorSpec> outputs) {
  return op != "Variable" || IsFloating(outputs[0].dtype);
}

}  // namespace

KernelBackend SimulatedBackend(const KernelBackend& inner, SimulatedDeviceOptions options) {
  struct Shared {
    SimulatedTraffic own_traffic;
    SimulatedDeviceOptions options;
    std::vector<std::shared_ptr<SimulatedDevice>> devices;
  };
  auto shared = std::make_shared<Shared>();
  shared->options = std::move(options);
  if (shared->options.traffic == nullptr) shared->options.traffic = &shared->own_traffic;
  for (int i = 0; i < shared->options.num_devices; ++i) {
    shared->devices.push_back(
        std::make_shared<SimulatedDevice>(shared->options.traffic, shared->options));
  }
  KernelBackend backend;
  backend.device_type = "GPU";
  backend.libraries = "simulated";
  backend.num_devices = static_cast<int>(shared->devices.size());
  backend.fused_ops = inner.fused_ops;
  backend.open_device = [shared](int index) -> absl::StatusOr<std::shared_ptr<Device>> {
    if (index < static_cast<int>(shared->devices.size())) return shared->devices[index];
    return absl::UnavailableError(absl::StrCat("there is no simulated device ", index));
  };
  if (shared->options.has_groups) {
    backend.open_group =
        [shared](absl::Span<const int> indices) -> absl::StatusOr<std::shared_ptr<DeviceGroup>> {
      RETURN_IF_ERROR(shared->options.group_status);
      std::vector<std::shared_ptr<SimulatedRank>> ranks;
      for (int index : indices) ranks.push_back(shared->devices[index]);
      return NewSimulatedGroup(std::move(ranks), shared->options);
    };
  }
  backend.has_kernel = [shared](absl::string_view op, absl::Span<const TensorSpec>,
                                absl::Span<const TensorSpec> outputs) {
    const std::vector<std::string>& ops = shared->options.ops;
    return CanHaveOutputs(op, outputs) &&
           (ops.empty() || std::count(ops.begin(), ops.end(), op) > 0);
  };
  backend.create_kernel =
      [create = inner.create_kernel](
          const KernelRequest& request) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    CHECK(request.device != nullptr);
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, create(request));
    return {std::make_unique<SimulatedKernel>(std::move(kernel), request.inputs.size(),
                                              request.outputs.size())};
  };
  return backend;
}

}  // namespace shoal
