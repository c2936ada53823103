// MaxPool, AveragePool and their gradients, in the plain layout or in blocks of 16 channels.

#include "ml/kernels/cpu/simd/pool_kernels.h"

#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {

PoolPlane PlaneOf(const PoolShape& shape) {
  PoolPlane plane;
  for (int a = 0; a < 2; ++a) {
    plane.in[a] = shape.in_size[a];
    plane.out[a] = shape.out_size[a];
    plane.kernel[a] = shape.window.kernel[a];
    plane.stride[a] = shape.window.stride[a];
    plane.pad[a] = shape.window.pad_before[a];
  }
  return plane;
}

namespace {

// The base of the four kernels: they process planes, which are independent of each other.
class PlanesKernel : public Kernel {
 public:
  struct Setup {
    const PoolKernels* loops;
    PoolPlane plane;
    int64_t planes;
    int64_t in_plane, out_plane;  // floats of one plane
    int threads;
    bool option;  // relu or count_include_pad
  };

  explicit PlanesKernel(const Setup& setup) : s_(setup) {}

  void Run(const KernelContext& context) override {
    ParallelFor(s_.threads, s_.planes,
                [&](int64_t begin, int64_t end) { RunPlanes(context, begin, end - begin); });
  }

 protected:
  virtual void RunPlanes(const KernelContext& context, int64_t first, int64_t count) = 0;

  const Setup s_;
};

class MaxPoolKernel : public PlanesKernel {
 public:
  using PlanesKernel::PlanesKernel;

 private:
  void RunPlanes(const KernelContext& context, int64_t first, int64_t count) override {
    s_.loops->max_pool(s_.plane, s_.option, FloatInput(context, 0) + first * s_.in_plane,
                       FloatOutput(context, 0) + first * s_.out_plane,
                       static_cast<uint8_t*>(context.outputs[1]) + first * s_.out_plane, count);
  }
};

class MaxPoolGradKernel : public PlanesKernel {
 public:
  using PlanesKernel::PlanesKernel;

 private:
  void RunPlanes(const KernelContext& context, int64_t first, int64_t count) override {
    s_.loops->max_pool_gradient(
        s_.plane, static_cast<const uint8_t*>(context.inputs[0]) + first * s_.out_plane,
        FloatInput(context, 1) + first * s_.out_plane,
        FloatOutput(context, 0) + first * s_.in_plane, count);
  }
};

class AveragePoolKernel : public PlanesKernel {
 public:
  using PlanesKernel::PlanesKernel;

 private:
  void RunPlanes(const KernelContext& context, int64_t first, int64_t count) override {
    s_.loops->average_pool(s_.plane, s_.option, FloatInput(context, 0) + first * s_.in_plane,
                           FloatOutput(context, 0) + first * s_.out_plane, count);
  }
};

class AveragePoolGradKernel : public PlanesKernel {
 public:
  using PlanesKernel::PlanesKernel;

 private:
  void RunPlanes(const KernelContext& context, int64_t first, int64_t count) override {
    s_.loops->average_pool_gradient(s_.plane, s_.option,
                                    FloatInput(context, 0) + first * s_.out_plane,
                                    FloatOutput(context, 0) + first * s_.in_plane, count);
  }
};

bool IsFloat(const TensorSpec& spec) { return spec.dtype == DataType::kFloat32; }

// `images` is the input of the pool, `pooled` its output.
absl::StatusOr<PlanesKernel::Setup> MakeSetup(const CpuRequest& request, const TensorSpec& images,
                                              const TensorSpec& pooled, bool option) {
  if (!IsFloat(images) || !IsFloat(pooled)) return request.NoKernel();
  const absl::StatusOr<PoolShape> shape = MakePoolShape(request.attributes(), images.shape);
  if (!shape.ok()) return request.Invalid(shape.status().message());
  if (pooled.shape !=
      Shape({shape->batch, shape->channels, shape->out_size[0], shape->out_size[1]})) {
    return request.Invalid("the pooled images do not fit");
  }
  if (images.layout != pooled.layout) return request.Invalid("want equal layouts");
  if (shape->window.kernel[0] * shape->window.kernel[1] >= kNoWinner) {
    return request.Invalid("want a window of fewer than 255 elements");
  }
  const bool blocked = images.layout == Layout::kBlocked16;
  const int64_t block = blocked ? 16 : 1;
  PlanesKernel::Setup setup;
  setup.loops = blocked ? &PoolKernelsFor(request.isa) : &PlainPoolKernels();
  setup.plane = PlaneOf(*shape);
  setup.planes = shape->batch * shape->channels / block;
  setup.in_plane = shape->InputPixels() * block;
  setup.out_plane = shape->OutputPixels() * block;
  setup.threads = request.threads();
  setup.option = option;
  return setup;
}

}  // namespace

KernelOr CreateMaxPool(const CpuRequest& request) {
  if (request.num_inputs() != 1 || request.num_outputs() != 2 ||
      request.output(1).dtype != DataType::kUint8 ||
      request.output(1).shape != request.output(0).shape) {
    return request.Invalid("want x -> y, index (uint8)");
  }
  const absl::StatusOr<PlanesKernel::Setup> setup = MakeSetup(
      request, request.input(0), request.output(0), request.attributes().GetBool("relu", false));
  if (!setup.ok()) return setup.status();
  return std::make_unique<MaxPoolKernel>(*setup);
}

KernelOr CreateMaxPoolGrad(const CpuRequest& request) {
  if (request.num_inputs() < 2 || request.num_outputs() != 1 ||
      request.input(0).dtype != DataType::kUint8 ||
      request.input(0).shape != request.input(1).shape) {
    return request.Invalid("want index (uint8), dy -> dx");
  }
  const absl::StatusOr<PlanesKernel::Setup> setup =
      MakeSetup(request, request.output(0), request.input(1), false);
  if (!setup.ok()) return setup.status();
  return std::make_unique<MaxPoolGradKernel>(*setup);
}

KernelOr CreateAveragePool(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const absl::StatusOr<PlanesKernel::Setup> setup =
      MakeSetup(request, request.input(0), request.output(0),
                request.attributes().GetBool("count_include_pad", false));
  if (!setup.ok()) return setup.status();
  return std::make_unique<AveragePoolKernel>(*setup);
}

KernelOr CreateAveragePoolGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 2, 1); !status.ok()) return status;
  const absl::StatusOr<PlanesKernel::Setup> setup =
      MakeSetup(request, request.output(0), request.input(0),
                request.attributes().GetBool("count_include_pad", false));
  if (!setup.ok()) return setup.status();
  return std::make_unique<AveragePoolGradKernel>(*setup);
}

}  // namespace shoal::cpu
