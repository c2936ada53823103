// Compares the products of pairs of vectors, and their gradients, with loops that add in the
// documented order. They must have the same bits: a run file has the same result with any number of
// vectors that a kernel computes at the same time.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"
#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {
namespace {

constexpr int64_t kBatch = 5;
constexpr uint32_t kSeed = 11;

// Returns a * b + sum with the roundings of the instruction set.
float MultiplyAndAdd(CpuIsa isa, float a, float b, float sum) {
  if (isa != CpuIsa::kGeneric) return std::fma(a, b, sum);
  const volatile float product = a * b;
  return product + sum;
}

struct Vectors {
  int64_t count, dim;
  std::vector<Value> values;

  Vectors(int64_t count, int64_t dim) : count(count), dim(dim) {
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(RandomFloats({kBatch, dim}, kSeed + static_cast<uint32_t>(i)));
    }
  }
  int64_t pairs() const { return count * (count - 1) / 2; }
  const float* At(int64_t i, int64_t example) const {
    return values[i].floats.data() + example * dim;
  }
};

int64_t PairOf(int64_t i, int64_t j) { return i > j ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i; }

std::vector<float> Products(const Vectors& vectors, CpuIsa isa) {
  std::vector<float> products;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t i = 1; i < vectors.count; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        float sum = 0.0f;
        for (int64_t d = 0; d < vectors.dim; ++d) {
          sum = MultiplyAndAdd(isa, vectors.At(i, b)[d], vectors.At(j, b)[d], sum);
        }
        products.push_back(sum);
      }
    }
  }
  return products;
}

// Returns the gradient of vector i: the sum of the other vectors, in their order, times the
// gradients of their products with it.
std::vector<float> Gradient(const Vectors& vectors, const std::vector<float>& dy, int64_t i,
                            CpuIsa isa) {
  std::vector<float> gradient;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t d = 0; d < vectors.dim; ++d) {
      float sum = 0.0f;
      for (int64_t j = 0; j < vectors.count; ++j) {
        if (j == i) continue;
        sum = MultiplyAndAdd(isa, dy[b * vectors.pairs() + PairOf(i, j)], vectors.At(j, b)[d], sum);
      }
      gradient.push_back(sum);
    }
  }
  return gradient;
}

class PairsTest : public testing::TestWithParam<int64_t> {};

TEST_P(PairsTest, ProductsHaveTheBitsOfSumsInOrder) {
  for (const int64_t count : {2, 3, 5, 9, 10, 17, 18, 27, 40}) {
    const Vectors vectors(count, GetParam());
    for (const CpuIsa isa : AllIsas()) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message() << count << " vectors, instruction set "
                                        << static_cast<int>(isa) << ", threads " << threads);
        const auto results =
            RunKernel("PairwiseDots", {}, vectors.values,
                      {{DataType::kFloat32, {kBatch, vectors.pairs()}}}, {threads, isa});
        ASSERT_TRUE(results.ok()) << results.status();
        EXPECT_EQ((*results)[0].floats, Products(vectors, isa));
      }
    }
  }
}

TEST_P(PairsTest, GradientsHaveTheBitsOfSumsInOrder) {
  for (const int64_t count : {2, 3, 5, 9, 10, 17, 18, 27, 40}) {
    const Vectors vectors(count, GetParam());
    std::vector<Value> inputs = {RandomFloats({kBatch, vectors.pairs()}, 3)};
    inputs.insert(inputs.end(), vectors.values.begin(), vectors.values.end());
    const TensorSpec spec{DataType::kFloat32, {kBatch, GetParam()}};
    const std::vector<TensorSpec> outputs(count, spec);
    std::vector<bool> needed(count, true);
    needed[count / 2] = false;
    for (const CpuIsa isa : AllIsas()) {
      SCOPED_TRACE(testing::Message()
                   << count << " vectors, instruction set " << static_cast<int>(isa));
      const auto results = RunKernel("PairwiseDotsGrad", {}, inputs, outputs, {1, isa, needed});
      ASSERT_TRUE(results.ok()) << results.status();
      for (int64_t i = 0; i < count; ++i) {
        const std::vector<float> want =
            needed[i] ? Gradient(vectors, inputs[0].floats, i, isa) : Unwritten(spec).floats;
        EXPECT_EQ((*results)[i].floats, want) << "vector " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, PairsTest, testing::Values(1, 3, 4, 8, 15, 16, 17, 33, 40));

}  // namespace
}  // namespace shoal::cpu
