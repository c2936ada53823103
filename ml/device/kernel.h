// A kernel computes one node of a compiled graph on one device; a backend makes kernels for the
// compiler.
//
// A kernel is made once for exact shapes and run many times. Run never allocates, never fails, and
// gives the same bytes for the same inputs. Outputs never overlap inputs. A kernel is run by one
// thread at a time and may use `threads` OpenMP threads inside. On a device with memory of its own
// Run puts its work into the device's stream and returns; what goes wrong then, the device tells.
#ifndef SHOAL_ML_DEVICE_KERNEL_H_
#define SHOAL_ML_DEVICE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/device/attributes.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal {

class Device;
class DeviceGroup;

// Seeds random ops together with their own attributes: the same batch gives the same bytes.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t first_example = 0;  // position in the epoch of the first example of this clone's batch
};

// Hears that the first elements of an output are final while its kernel computes the rest.
class PartListener {
 public:
  virtual ~PartListener() = default;
  // On the thread that runs the kernel, with more elements from call to call.
  virtual void OnPart(int output, int64_t num_elements) = 0;
};

struct KernelContext {
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;  // null where output_needed is false
  void* workspace = nullptr;       // workspace_bytes(), 64-byte aligned, contents undefined
  RandomKey key;
  void* stream = nullptr;  // Device::stream(); null on the host
  // Called by kernels that make an output in parts; may be null. Not called for the last part: when
  // Run returns, all outputs are final.
  PartListener* parts = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Scratch memory, shared with the device's other kernels between their runs.
  virtual size_t workspace_bytes() const { return 0; }
  virtual void Run(const KernelContext& context) = 0;
};

struct KernelRequest {
  absl::string_view op;
  const Attributes* attributes = nullptr;  // not kept by the kernel
  absl::Span<const TensorSpec> inputs;
  absl::Span<const TensorSpec> outputs;
  std::vector<bool> output_needed;  // a gradient that nobody fetches: null at Run, work skipped
  int threads = 1;
  Device* device =
      nullptr;  // the device that the kernel will run on, which outlives it; null: the host
};

// NotFound or Unimplemented, naming op and dtypes, where there is no kernel.
using KernelFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelRequest& request)>;

// Returns whether a kernel of the op takes input (or gives output) `index` in this layout. Plain is
// always taken. Asked for 4-d tensors with channels in multiples of 16 only.
enum class Port { kInput, kOutput };
using LayoutSupport = std::function<bool(absl::string_view op, const Attributes& attributes,
                                         Port port, int index, Layout layout)>;

// The kernels of one kind of device.
struct KernelBackend {
  std::string device_type = "CPU";
  KernelFactory create_kernel;
  LayoutSupport supports_layout;                 // empty: plain only
  std::function<void(int threads)> set_threads;  // for the calling thread; empty: nothing to set
  // Names what results depend on beside the inputs, for fingerprints: "NVIDIA H100 sm_90, cuBLASLt
  // 13".
  std::string libraries;
  // Devices of this machine; 0 for those of the host, which are as many as one names.
  int num_devices = 0;
  // Device number `index`, or Unavailable saying how many there are; kept by those who use it.
  // Empty: the devices compute on the host's threads and memory.
  std::function<absl::StatusOr<std::shared_ptr<Device>>(int index)> open_device;
  // A group of these devices, two or more: ranks in their order. Empty: there are none, devices
  // exchange plain copies.
  std::function<absl::StatusOr<std::shared_ptr<DeviceGroup>>(absl::Span<const int> indices)>
      open_group;
  // Returns whether there is a kernel for these types; sizes may be unknown. Empty: there is one
  // for all types.
  std::function<bool(absl::string_view op, absl::Span<const TensorSpec> inputs,
                     absl::Span<const TensorSpec> outputs)>
      has_kernel;
  // Fused ops that this backend has kernels for, of BatchNorm (with a residual as input 5 and
  // activation relu or relu6; BatchNormGrad with it, the offset as input 5), Dense, DenseGrad, Conv
  // (with an activation), MaxPool (with relu), ConvPool, ConvPoolGrad. DenseGrad with attribute
  // input_relu: x is a ReLU's output, dx goes back through it too; and with has_input_bias: its
  // last output is the sum of that dx over rows, or over everything if it is a scalar.
  std::vector<std::string> fused_ops;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_KERNEL_H_
