// A kernel computes one node of a compiled graph on one device. A backend makes the kernels of one
// type of device for the graph compiler.
//
// A kernel is made once for exact shapes and run many times. Run never allocates, never fails, and
// gives the same bytes for the same inputs. Outputs never overlap inputs. Only one thread at a time
// may run a kernel; the kernel may use `threads` OpenMP threads itself. On a device with its own
// memory Run enqueues the work on the device's stream and returns, and Device::status() returns the
// errors of the work.
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

// The seed of random ops, in addition to their own attributes. The same batch has the same key, so
// it gives the same bytes when it is computed again.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t first_example = 0;  // position in the epoch of the first example of this clone's batch
};

// Is notified when the first elements of an output are final while the kernel still computes the
// rest.
class PartListener {
 public:
  virtual ~PartListener() = default;
  // The first `num_elements` elements of the output are final. Called on the thread that runs the
  // kernel; the number grows from call to call.
  virtual void OnPart(int output, int64_t num_elements) = 0;
};

struct KernelContext {
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;  // null where output_needed is false
  void* workspace = nullptr;       // workspace_bytes(), 64-byte aligned, contents undefined
  RandomKey key;
  void* stream = nullptr;  // Device::stream(); null on the host
  // Notified by kernels that compute an output in parts; may be null. The last part is not
  // reported, because all outputs are final when Run returns.
  PartListener* parts = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Returns the size of the scratch memory that Run needs. All kernels of a device share one
  // scratch memory, so its contents are lost between two runs.
  virtual size_t workspace_bytes() const { return 0; }
  virtual void Run(const KernelContext& context) = 0;
};

struct KernelRequest {
  absl::string_view op;
  const Attributes* attributes = nullptr;  // not kept by the kernel
  absl::Span<const TensorSpec> inputs;
  absl::Span<const TensorSpec> outputs;
  std::vector<bool> output_needed;  // false: Run gets null for the output and need not compute it
  int threads = 1;
  Device* device = nullptr;  // the device that will run the kernel and outlives it; null: the host
};

// Makes a kernel. Returns NotFound if the op has no kernel and Unimplemented if it has none for
// these types; both errors name the op and the types.
using KernelFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelRequest& request)>;

enum class Port { kInput, kOutput };
// Returns whether the op's kernel accepts its input (or can write its output) number `index` in
// this layout. Every kernel accepts the plain layout. Called only for 4-d tensors whose number of
// channels is a multiple of 16.
using LayoutSupport = std::function<bool(absl::string_view op, const Attributes& attributes,
                                         Port port, int index, Layout layout)>;

// The kernels of one kind of device.
struct KernelBackend {
  std::string device_type = "CPU";
  KernelFactory create_kernel;
  LayoutSupport supports_layout;  // empty: the plain layout only
  // Sets the number of threads for kernels that the calling thread runs; may be empty.
  std::function<void(int threads)> set_threads;
  // The hardware and the library versions on which results depend in addition to the inputs, for
  // fingerprints: "NVIDIA H100 sm_90, CUDA 13.0, cuBLASLt 130002, cuDNN 91300, NCCL 22707".
  std::string libraries;
  // The same for people, with the number of devices of each model: "2 x NVIDIA H100 sm_90, CUDA
  // 13.0, …". Empty for CPU devices.
  std::string description;
  // The number of such devices in this machine; 0 for CPU devices, because a run may name any
  // number of them.
  int num_devices = 0;
  // Opens device number `index`; the callers share its ownership. Returns Unavailable, with the
  // number of devices, if it does not exist. Empty: the devices use the host's threads and memory.
  std::function<absl::StatusOr<std::shared_ptr<Device>>(int index)> open_device;
  // Opens a group of these devices, at least two; their ranks are in this order. Empty: there are
  // no groups, and devices exchange values by plain copies.
  std::function<absl::StatusOr<std::shared_ptr<DeviceGroup>>(absl::Span<const int> indices)>
      open_group;
  // Returns whether the op has a kernel for these types; sizes may be unknown. Empty: every op has
  // kernels for all types.
  std::function<bool(absl::string_view op, absl::Span<const TensorSpec> inputs,
                     absl::Span<const TensorSpec> outputs)>
      has_kernel;
  // The fused ops for which this backend has kernels. The possible ones are:
  //
  // BatchNorm, with a residual as input 5 and the activation relu or relu6, together with
  // BatchNormGrad, which has the offset as input 5;
  //
  // Dense and DenseGrad. If DenseGrad has the attribute input_relu, x is the output of a ReLU and
  // dx is the gradient of this ReLU's input. If it also has has_input_bias, its last output is the
  // sum of that dx over the rows, or over all elements if the output is a scalar;
  //
  // Conv, with an activation; MaxPool, with relu; ConvPool and ConvPoolGrad.
  std::vector<std::string> fused_ops;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_KERNEL_H_
