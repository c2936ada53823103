// Bags of rows of a table, and products of vectors, with their gradients.

#include "ml/kernels/cpu/simd/feature_kernels.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// The least number of floats for which a second thread is worth its start.
constexpr int64_t kWorthAThread = 16384;

bool IsIndex(const TensorSpec& spec) {
  return spec.shape.rank() == 1 &&
         (spec.dtype == DataType::kInt32 || spec.dtype == DataType::kInt64);
}

// The bags of one feature: the inputs of a kernel from `first` on are its indices, offsets and, if
// it has any, weights.
struct BagInputs {
  int first = 0;
  bool has_weights = false;
  bool is_mean = false;
  bool has_int64_indices = false, has_int64_offsets = false;
  int64_t num_indices = 0, num_bags = 0;

  RowBags Bags(const KernelContext& context, int64_t num_rows, int64_t dim) const {
    return {{context.inputs[first], has_int64_indices},
            {context.inputs[first + 1], has_int64_offsets},
            has_weights ? FloatInput(context, first + 2) : nullptr,
            is_mean,
            num_indices,
            num_rows,
            dim};
  }
};

absl::StatusOr<BagInputs> ReadBags(const CpuRequest& request, int first, bool has_weights,
                                   bool is_mean) {
  const int last = first + (has_weights ? 2 : 1);
  if (request.num_inputs() <= last || !IsIndex(request.input(first)) ||
      !IsIndex(request.input(first + 1)) || request.input(first + 1).shape.dim(0) < 1 ||
      (has_weights && (request.input(last).dtype != DataType::kFloat32 ||
                       request.input(last).shape != request.input(first).shape))) {
    return request.Invalid("want row numbers, offsets and, if there are any, weights for each bag");
  }
  BagInputs bags;
  bags.first = first;
  bags.has_weights = has_weights;
  bags.is_mean = is_mean;
  bags.has_int64_indices = request.input(first).dtype == DataType::kInt64;
  bags.has_int64_offsets = request.input(first + 1).dtype == DataType::kInt64;
  bags.num_indices = request.input(first).shape.dim(0);
  bags.num_bags = request.input(first + 1).shape.dim(0) - 1;
  return bags;
}

class EmbeddingBagKernel : public Kernel {
 public:
  EmbeddingBagKernel(const CpuRequest& request, const BagInputs& bags)
      : kernels_(FeatureKernelsFor(request.isa)),
        bags_(bags),
        num_rows_(request.input(0).shape.dim(0)),
        dim_(request.input(0).shape.dim(1)),
        threads_(bags.num_bags * dim_ > kWorthAThread ? request.threads() : 1) {}

  void Run(const KernelContext& context) override {
    const RowBags bags = bags_.Bags(context, num_rows_, dim_);
    ParallelFor(threads_, bags_.num_bags, [&](int64_t begin, int64_t end) {
      kernels_.pool(bags, FloatInput(context, 0), begin, end, FloatOutput(context, 0));
    });
  }

 private:
  const FeatureKernels& kernels_;
  const BagInputs bags_;
  const int64_t num_rows_, dim_;
  const int threads_;
};

// Every thread has its own rows and adds to them in the order of the bags, so the result has the
// same bytes for any number of threads.
class EmbeddingBagGradKernel : public Kernel {
 public:
  EmbeddingBagGradKernel(const CpuRequest& request, std::vector<BagInputs> bags)
      : kernels_(FeatureKernelsFor(request.isa)),
        bags_(std::move(bags)),
        num_rows_(request.output(0).shape.dim(0)),
        dim_(request.output(0).shape.dim(1)),
        threads_(num_rows_ * dim_ > kWorthAThread ? request.threads() : 1) {}

  void Run(const KernelContext& context) override {
    float* gradient = FloatOutput(context, 0);
    ParallelFor(threads_, num_rows_, [&](int64_t begin, int64_t end) {
      std::fill(gradient + begin * dim_, gradient + end * dim_, 0.0f);
      for (const BagInputs& bags : bags_) {
        kernels_.add_pool_gradient(bags.Bags(context, num_rows_, dim_),
                                   FloatInput(context, bags.first - 1), bags.num_bags, begin, end,
                                   gradient);
      }
    });
  }

 private:
  const FeatureKernels& kernels_;
  const std::vector<BagInputs> bags_;
  const int64_t num_rows_, dim_;
  const int threads_;
};

// The products of several vectors [batch, dim], which are the inputs from `first` on.
class VectorsKernel : public Kernel {
 public:
  VectorsKernel(const CpuRequest& request, int first)
      : kernels_(FeatureKernelsFor(request.isa)),
        first_(first),
        count_(request.num_inputs() - first),
        batch_(request.input(first).shape.dim(0)),
        dim_(request.input(first).shape.dim(1)),
        threads_(batch_ * count_ * dim_ > kWorthAThread ? request.threads() : 1) {}

 protected:
  // Calls body(part of the batch, number of the part).
  template <typename Body>
  void ForEachPart(const KernelContext& context, Body body) {
    ParallelFor(threads_, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        body(VectorBatch{context.inputs + first_, count_, dim_, batch_ * part / threads_,
                         batch_ * (part + 1) / threads_},
             part);
      }
    });
  }

  const FeatureKernels& kernels_;
  const int first_;
  const int64_t count_, batch_, dim_;
  const int threads_;
};

class PairwiseDotsKernel : public VectorsKernel {
 public:
  explicit PairwiseDotsKernel(const CpuRequest& request)
      : VectorsKernel(request, 0), scratch_(kernels_.pair_scratch(count_, dim_)) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(scratch_ * threads_) * sizeof(float);
  }
  void Run(const KernelContext& context) override {
    ForEachPart(context, [&](const VectorBatch& batch, int64_t part) {
      kernels_.pairwise_dots(batch, static_cast<float*>(context.workspace) + part * scratch_,
                             FloatOutput(context, 0));
    });
  }

 private:
  const int64_t scratch_;
};

class FactorizationKernel : public VectorsKernel {
 public:
  explicit FactorizationKernel(const CpuRequest& request) : VectorsKernel(request, 0) {}

  void Run(const KernelContext& context) override {
    ForEachPart(context, [&](const VectorBatch& batch, int64_t) {
      kernels_.factorization(batch, FloatOutput(context, 0));
    });
  }
};

class VectorsGradKernel : public VectorsKernel {
 public:
  explicit VectorsGradKernel(const CpuRequest& request)
      : VectorsKernel(request, 1), is_pairwise_(request.request.op == "PairwiseDotsGrad") {}

  void Run(const KernelContext& context) override {
    ForEachPart(context, [&](const VectorBatch& batch, int64_t) {
      const auto gradient =
          is_pairwise_ ? kernels_.pairwise_dots_gradient : kernels_.factorization_gradient;
      gradient(batch, FloatInput(context, 0), context.outputs);
    });
  }

 private:
  const bool is_pairwise_;
};

// Checks that the inputs from `first` on are vectors of one size.
absl::Status CheckVectors(const CpuRequest& request, int first) {
  for (int i = first; i < request.num_inputs(); ++i) {
    if (request.input(i).shape.rank() != 2 ||
        request.input(i).shape != request.input(first).shape) {
      return request.Invalid("want vectors [batch, dim] of one size");
    }
  }
  return absl::OkStatus();
}

}  // namespace

KernelOr CreateEmbeddingBag(const CpuRequest& request) {
  if (request.num_inputs() < 3 || request.num_outputs() != 1 ||
      request.input(0).dtype != DataType::kFloat32) {
    return request.NoKernel();
  }
  const auto bags =
      ReadBags(request, 1, request.num_inputs() > 3, request.attributes().GetBool("mean", false));
  if (!bags.ok()) return bags.status();
  if (request.input(0).shape.rank() != 2 ||
      request.output(0).shape != Shape({bags->num_bags, request.input(0).shape.dim(1)})) {
    return request.Invalid("the shapes do not fit");
  }
  return std::make_unique<EmbeddingBagKernel>(request, *bags);
}

KernelOr CreateEmbeddingBagGrad(const CpuRequest& request) {
  if (request.num_outputs() != 1 || request.output(0).dtype != DataType::kFloat32) {
    return request.NoKernel();
  }
  const std::vector<int64_t> mean = request.attributes().GetInts("mean", {});
  const std::vector<int64_t> weighted = request.attributes().GetInts("weighted", {});
  if (mean.size() != weighted.size() || request.output(0).shape.rank() != 2) {
    return request.Invalid("want one entry of `mean` and `weighted` for each bag");
  }
  std::vector<BagInputs> all;
  int first = 1;
  for (size_t k = 0; k < mean.size(); ++k) {
    const auto bags = ReadBags(request, first, weighted[k] != 0, mean[k] != 0);
    if (!bags.ok()) return bags.status();
    const TensorSpec& dy = request.input(first - 1);
    if (dy.dtype != DataType::kFloat32 ||
        dy.shape != Shape({bags->num_bags, request.output(0).shape.dim(1)})) {
      return request.Invalid("the gradients do not fit the bags");
    }
    all.push_back(*bags);
    first += weighted[k] != 0 ? 4 : 3;
  }
  return std::make_unique<EmbeddingBagGradKernel>(request, std::move(all));
}

KernelOr CreateVectorProducts(const CpuRequest& request) {
  const absl::Status types = request.CheckFloat(2, request.num_inputs(), 1);
  if (!types.ok()) return types;
  const absl::Status vectors = CheckVectors(request, 0);
  if (!vectors.ok()) return vectors;
  if (request.request.op == "FactorizationMachine") {
    return std::make_unique<FactorizationKernel>(request);
  }
  return std::make_unique<PairwiseDotsKernel>(request);
}

KernelOr CreateVectorProductsGrad(const CpuRequest& request) {
  const absl::Status types = request.CheckFloat(3, request.num_inputs(), request.num_inputs() - 1);
  if (!types.ok()) return types;
  const absl::Status vectors = CheckVectors(request, 1);
  if (!vectors.ok()) return vectors;
  return std::make_unique<VectorsGradKernel>(request);
}

}  // namespace shoal::cpu
