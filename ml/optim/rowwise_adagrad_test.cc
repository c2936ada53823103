#include "ml/optim/rowwise_adagrad.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr size_t kRows = 5;

// Rows and gradients without a pattern.
struct Rows {
  explicit Rows(size_t dim) : dim(dim), gradients(kRows * dim) {
    uint32_t random = 1;
    const auto next = [&random] {
      random = random * 1664525u + 1013904223u;
      return static_cast<float>(random >> 8) / 0x1p24f;
    };
    for (size_t r = 0; r < kRows; ++r) {
      memory.emplace_back(dim + 1);
      for (float& number : memory.back()) number = next();
      pointers.push_back(memory.back().data());
    }
    for (float& number : gradients) number = next() - 0.5f;
  }
  Rows(const Rows&) = delete;

  RowwiseAdagradStep Step() const {
    return {0.05f, 0.3f, 1e-6f, gradients.data(), pointers.data(), kRows, dim};
  }

  const size_t dim;
  std::vector<float> gradients;
  std::vector<std::vector<float>> memory;
  std::vector<float*> pointers;
};

// The definition, row by row, with the sums in their order.
void ApplySimply(const RowwiseAdagradStep& step) {
  for (size_t r = 0; r < step.num_rows; ++r) {
    const float* const gradient = step.gradients + r * step.dim;
    float* const row = step.rows[r];
    float sums[8] = {};
    for (size_t i = 0; i < step.dim; ++i) {
      volatile const float g = gradient[i] * step.gradient_scale;
      volatile const float square = g * g;
      sums[i % 8] += square;
    }
    const float square =
        ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    row[step.dim] += square / static_cast<float>(step.dim);
    const float factor =
        step.learning_rate / (std::sqrt(row[step.dim]) + step.epsilon) * step.gradient_scale;
    for (size_t i = 0; i < step.dim; ++i) {
      volatile const float change = factor * gradient[i];
      row[i] -= change;
    }
  }
}

TEST(RowwiseAdagradTest, HasTheBitsOfItsDefinitionWithEveryInstructionSet) {
  for (const UpdateIsa isa : {UpdateIsa::kBaseline, UpdateIsa::kAvx2, UpdateIsa::kAvx512}) {
    if (isa > DetectUpdateIsa()) break;
    for (const size_t dim : {1, 2, 5, 7, 8, 9, 15, 16, 17, 24, 32, 40, 64, 100}) {
      Rows rows(dim), expected(dim);
      EXPECT_TRUE(ApplyRowwiseAdagrad(rows.Step(), isa));
      ApplySimply(expected.Step());
      EXPECT_TRUE(rows.memory == expected.memory)
          << "dim " << dim << ", instructions " << static_cast<int>(isa);
    }
  }
}

TEST(RowwiseAdagradTest, ReportsNumbersThatAreNotFinite) {
  for (const size_t dim : {3, 16}) {
    Rows rows(dim);
    rows.gradients[dim + 1] = 3e38f;  // its square
    EXPECT_FALSE(ApplyRowwiseAdagrad(rows.Step()));
    Rows values(dim);
    values.memory[4][2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(ApplyRowwiseAdagrad(values.Step()));
  }
}

}  // namespace
}  // namespace shoal
