// Ops on features: bags of rows, and products of vectors.

#include <cmath>
#include <vector>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// The bags of one feature. The inputs of the call from `first` on are indices, offsets and, with
// `is_weighted`, weights.
class Bags {
 public:
  Bags(const Call& call, size_t first, bool is_weighted, bool is_mean)
      : call_(call), first_(first), is_weighted_(is_weighted), is_mean_(is_mean) {}

  int64_t count() const { return call_.InShape(first_ + 1).dim(0) - 1; }
  // The positions of a bag in the indices; a part that does not exist is left out.
  int64_t Begin(int64_t bag) const { return Clipped(bag); }
  int64_t End(int64_t bag) const { return Clipped(bag + 1); }
  int64_t Row(int64_t position) const { return IndexAt(first_, position); }
  // The factor of the row at a position of the bag.
  double Factor(int64_t bag, int64_t position) const {
    const double weight = Weight(position);
    if (!is_mean_) return weight;
    double total = 0;
    for (int64_t p = Begin(bag); p < End(bag); ++p) total += Weight(p);
    return total == 0 ? 0 : weight / total;
  }

 private:
  int64_t IndexAt(size_t input, int64_t i) const {
    return static_cast<int64_t>(
        LoadElement(call_.inputs[input].dtype, call_.context.inputs[input], i));
  }
  int64_t Clipped(int64_t bound) const {
    const int64_t offset = IndexAt(first_ + 1, bound);
    const int64_t size = call_.InShape(first_).dim(0);
    return offset < 0 ? 0 : offset > size ? size : offset;
  }
  double Weight(int64_t position) const {
    return is_weighted_ ? LoadElement(call_.inputs[first_ + 2].dtype,
                                      call_.context.inputs[first_ + 2], position)
                        : 1;
  }

  const Call& call_;
  const size_t first_;
  const bool is_weighted_, is_mean_;
};

template <typename T>
void EmbeddingBag(const Call& call) {
  const Shape& rows = call.InShape(0);
  const Bags bags(call, 1, call.inputs.size() > 3, call.attributes.GetBool("mean", false));
  const int64_t dim = rows.dim(1);
  for (int64_t bag = 0; bag < bags.count(); ++bag) {
    for (int64_t d = 0; d < dim; ++d) {
      double sum = 0;
      for (int64_t p = bags.Begin(bag); p < bags.End(bag); ++p) {
        const int64_t row = bags.Row(p);
        const bool is_there = row >= 0 && row < rows.dim(0);
        sum += bags.Factor(bag, p) *
               (is_there ? static_cast<double>(call.In<T>(0)[row * dim + d]) : std::nan(""));
      }
      call.Out<T>(0)[bag * dim + d] = static_cast<T>(sum);
    }
  }
}

// For each bag dy, indices, offsets and, if it has any, weights -> the gradient of the rows
template <typename T>
void EmbeddingBagGrad(const Call& call) {
  const Shape& rows = call.OutShape(0);
  const int64_t dim = rows.dim(1);
  const std::vector<int64_t> mean = call.attributes.GetInts("mean", {});
  const std::vector<int64_t> weighted = call.attributes.GetInts("weighted", {});
  std::vector<double> sums(static_cast<size_t>(rows.num_elements()));
  size_t input = 0;
  for (size_t k = 0; k < mean.size(); ++k) {
    const Bags bags(call, input + 1, weighted[k] != 0, mean[k] != 0);
    for (int64_t bag = 0; bag < bags.count(); ++bag) {
      for (int64_t p = bags.Begin(bag); p < bags.End(bag); ++p) {
        const int64_t row = bags.Row(p);
        if (row < 0 || row >= rows.dim(0)) continue;
        for (int64_t d = 0; d < dim; ++d) {
          sums[static_cast<size_t>(row * dim + d)] +=
              bags.Factor(bag, p) * call.In<T>(input)[bag * dim + d];
        }
      }
    }
    input += weighted[k] != 0 ? 4 : 3;
  }
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i]);
}

template <typename T>
void PairwiseDots(const Call& call) {
  const int64_t batch = call.InShape(0).dim(0), dim = call.InShape(0).dim(1);
  int64_t next = 0;
  for (int64_t b = 0; b < batch; ++b) {
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        double sum = 0;
        for (int64_t e = b * dim; e < (b + 1) * dim; ++e) {
          sum += static_cast<double>(call.In<T>(i)[e]) * call.In<T>(j)[e];
        }
        call.Out<T>(0)[next++] = static_cast<T>(sum);
      }
    }
  }
}

// dy, the vectors -> their gradients
template <typename T>
void PairwiseDotsGrad(const Call& call) {
  const Shape& shape = call.OutShape(0);
  const size_t vectors = call.outputs.size();
  const auto pairs = static_cast<int64_t>(vectors * (vectors - 1) / 2);
  for (size_t i = 0; i < vectors; ++i) {
    for (int64_t e = 0; e < shape.num_elements() && call.Out<T>(i) != nullptr; ++e) {
      double sum = 0;
      for (size_t j = 0; j < vectors; ++j) {
        if (i == j) continue;
        const size_t high = i > j ? i : j, low = i > j ? j : i;
        const auto pair = static_cast<int64_t>(high * (high - 1) / 2 + low);
        sum += static_cast<double>(call.In<T>(0)[e / shape.dim(1) * pairs + pair]) *
               call.In<T>(1 + j)[e];
      }
      call.Out<T>(i)[e] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void FactorizationMachine(const Call& call) {
  const int64_t batch = call.InShape(0).dim(0), dim = call.InShape(0).dim(1);
  for (int64_t b = 0; b < batch; ++b) {
    double total = 0;
    for (int64_t e = b * dim; e < (b + 1) * dim; ++e) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        const double x = call.In<T>(i)[e];
        sum += x;
        squares += x * x;
      }
      total += (sum * sum - squares) / 2;
    }
    call.Out<T>(0)[b] = static_cast<T>(total);
  }
}

// dy, the vectors -> their gradients
template <typename T>
void FactorizationMachineGrad(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t e = 0; e < shape.num_elements(); ++e) {
    double sum = 0;
    for (size_t i = 1; i < call.inputs.size(); ++i) sum += call.In<T>(i)[e];
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.Out<T>(i) == nullptr) continue;
      call.Out<T>(i)[e] =
          static_cast<T>((sum - call.In<T>(1 + i)[e]) * call.In<T>(0)[e / shape.dim(1)]);
    }
  }
}

constexpr Op kOps[] = {
    {"EmbeddingBag", &EmbeddingBag<float>, &EmbeddingBag<double>},
    {"EmbeddingBagGrad", &EmbeddingBagGrad<float>, &EmbeddingBagGrad<double>},
    {"PairwiseDots", &PairwiseDots<float>, &PairwiseDots<double>},
    {"PairwiseDotsGrad", &PairwiseDotsGrad<float>, &PairwiseDotsGrad<double>},
    {"FactorizationMachine", &FactorizationMachine<float>, &FactorizationMachine<double>},
    {"FactorizationMachineGrad", &FactorizationMachineGrad<float>,
     &FactorizationMachineGrad<double>},
};

}  // namespace

absl::Span<const Op> FeatureOps() { return kOps; }

}  // namespace shoal::reference
