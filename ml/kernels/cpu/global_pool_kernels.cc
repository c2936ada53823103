// GlobalAveragePool, GlobalMaxPool and their gradients, in plain order or blocks of 16 channels.

#include <algorithm>
#include <cmath>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

constexpr int64_t kBlock = 16;

// Planes [pixels][lanes]; each lane is one channel.
struct Planes {
  int64_t count, pixels, lanes;
};

// The base of the four kernels: they process planes, which are independent of each other.
class GlobalPoolKernel : public Kernel {
 public:
  GlobalPoolKernel(const Planes& planes, int threads) : p_(planes), threads_(threads) {}

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, p_.count, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) RunPlane(context, plane);
    });
  }

 protected:
  virtual void RunPlane(const KernelContext& context, int64_t plane) = 0;

  int64_t image(int64_t plane) const { return plane * p_.pixels * p_.lanes; }
  int64_t value(int64_t plane) const { return plane * p_.lanes; }

  const Planes p_;
  const int threads_;
};

class GlobalAveragePoolKernel : public GlobalPoolKernel {
 public:
  using GlobalPoolKernel::GlobalPoolKernel;

 private:
  void RunPlane(const KernelContext& context, int64_t plane) override {
    const float* x = FloatInput(context, 0) + image(plane);
    double sums[kBlock] = {};
    for (int64_t i = 0; i < p_.pixels; ++i, x += p_.lanes) {
      for (int64_t lane = 0; lane < p_.lanes; ++lane) sums[lane] += static_cast<double>(x[lane]);
    }
    float* y = FloatOutput(context, 0) + value(plane);
    for (int64_t lane = 0; lane < p_.lanes; ++lane) {
      y[lane] = static_cast<float>(sums[lane] / static_cast<double>(p_.pixels));
    }
  }
};

class GlobalAveragePoolGradKernel : public GlobalPoolKernel {
 public:
  using GlobalPoolKernel::GlobalPoolKernel;

 private:
  void RunPlane(const KernelContext& context, int64_t plane) override {
    const float* dy = FloatInput(context, 0) + value(plane);
    float* dx = FloatOutput(context, 0) + image(plane);
    float shares[kBlock];
    for (int64_t lane = 0; lane < p_.lanes; ++lane) {
      shares[lane] = dy[lane] / static_cast<float>(p_.pixels);
    }
    if (p_.lanes == 1) {
      std::fill_n(dx, p_.pixels, shares[0]);
      return;
    }
    for (int64_t i = 0; i < p_.pixels; ++i, dx += p_.lanes) std::copy_n(shares, p_.lanes, dx);
  }
};

// The first of the largest wins; a NaN wins over numbers.
class GlobalMaxPoolKernel : public GlobalPoolKernel {
 public:
  using GlobalPoolKernel::GlobalPoolKernel;

 private:
  void RunPlane(const KernelContext& context, int64_t plane) override {
    const float* x = FloatInput(context, 0) + image(plane);
    float* y = FloatOutput(context, 0) + value(plane);
    int32_t* index = static_cast<int32_t*>(context.outputs[1]) + value(plane);
    std::copy_n(x, p_.lanes, y);
    std::fill_n(index, p_.lanes, 0);
    for (int64_t i = 1; i < p_.pixels; ++i) {
      x += p_.lanes;
      for (int64_t lane = 0; lane < p_.lanes; ++lane) {
        if (x[lane] <= y[lane] || std::isnan(y[lane])) continue;
        y[lane] = x[lane];
        index[lane] = static_cast<int32_t>(i);
      }
    }
  }
};

class GlobalMaxPoolGradKernel : public GlobalPoolKernel {
 public:
  using GlobalPoolKernel::GlobalPoolKernel;

 private:
  void RunPlane(const KernelContext& context, int64_t plane) override {
    const int32_t* index = static_cast<const int32_t*>(context.inputs[0]) + value(plane);
    const float* dy = FloatInput(context, 1) + value(plane);
    float* dx = FloatOutput(context, 0) + image(plane);
    std::fill_n(dx, p_.pixels * p_.lanes, 0.0f);
    for (int64_t lane = 0; lane < p_.lanes; ++lane) dx[index[lane] * p_.lanes + lane] = dy[lane];
  }
};

// `images` is the input of the pool and `pooled` [n, c, 1, 1] its output; `index` is null or has
// the shape of `pooled`.
absl::StatusOr<Planes> MakePlanes(const CpuRequest& request, const TensorSpec& images,
                                  const TensorSpec& pooled, const TensorSpec* index) {
  if (images.dtype != DataType::kFloat32 || pooled.dtype != DataType::kFloat32) {
    return request.NoKernel();
  }
  const Shape& x = images.shape;
  if (x.rank() != 4 || x.dim(2) * x.dim(3) == 0 ||
      pooled.shape != Shape({x.dim(0), x.dim(1), 1, 1})) {
    return request.Invalid("want images, not empty, and one pixel for each channel");
  }
  if (index != nullptr && (index->dtype != DataType::kInt32 || index->shape != pooled.shape)) {
    return request.Invalid("want an index (int32) for each channel");
  }
  // In one pixel the two layouts are the same.
  const int64_t lanes = images.layout == Layout::kBlocked16 ? kBlock : 1;
  return Planes{x.dim(0) * x.dim(1) / lanes, x.dim(2) * x.dim(3), lanes};
}

template <typename K>
KernelOr Create(const CpuRequest& request, const absl::StatusOr<Planes>& planes) {
  if (!planes.ok()) return planes.status();
  return std::make_unique<K>(*planes, request.threads());
}

absl::Status CheckCounts(const CpuRequest& request, int inputs, int outputs) {
  if (request.num_inputs() == inputs && request.num_outputs() == outputs) return absl::OkStatus();
  return request.Invalid("wrong number of inputs or outputs");
}

}  // namespace

KernelOr CreateGlobalAveragePool(const CpuRequest& request) {
  if (absl::Status status = CheckCounts(request, 1, 1); !status.ok()) return status;
  return Create<GlobalAveragePoolKernel>(
      request, MakePlanes(request, request.input(0), request.output(0), nullptr));
}

KernelOr CreateGlobalAveragePoolGrad(const CpuRequest& request) {
  if (absl::Status status = CheckCounts(request, 1, 1); !status.ok()) return status;
  return Create<GlobalAveragePoolGradKernel>(
      request, MakePlanes(request, request.output(0), request.input(0), nullptr));
}

KernelOr CreateGlobalMaxPool(const CpuRequest& request) {
  if (absl::Status status = CheckCounts(request, 1, 2); !status.ok()) return status;
  return Create<GlobalMaxPoolKernel>(
      request, MakePlanes(request, request.input(0), request.output(0), &request.output(1)));
}

KernelOr CreateGlobalMaxPoolGrad(const CpuRequest& request) {
  if (absl::Status status = CheckCounts(request, 2, 1); !status.ok()) return status;
  return Create<GlobalMaxPoolGradKernel>(
      request, MakePlanes(request, request.output(0), request.input(1), &request.input(0)));
}

}  // namespace shoal::cpu
