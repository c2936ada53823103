// A matrix product by cuBLASLt: proof that a CUDA build compiles, links and, where there is a GPU,
// computes.
#ifndef SHOAL_TESTS_TOOLCHAIN_CUBLASLT_MATMUL_H_
#define SHOAL_TESTS_TOOLCHAIN_CUBLASLT_MATMUL_H_

#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// The [size, size] product of a matrix filled with `a` and one filled with `b`, column by column.
// kUnavailable without a GPU, or in a build without --config=cuda.
absl::StatusOr<std::vector<float>> MultiplyFilled(int size, float a, float b);

}  // namespace shoal

#endif  // SHOAL_TESTS_TOOLCHAIN_CUBLASLT_MATMUL_H_
