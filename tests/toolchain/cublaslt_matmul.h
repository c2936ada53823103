// Computes a matrix product with cuBLASLt, to prove that a CUDA build compiles, links and, on a
// machine with a GPU, runs.
#ifndef SHOAL_TESTS_TOOLCHAIN_CUBLASLT_MATMUL_H_
#define SHOAL_TESTS_TOOLCHAIN_CUBLASLT_MATMUL_H_

#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// Returns the product of two [size, size] matrices, one filled with `a` and one with `b`, column by
// column. Returns kUnavailable if there is no GPU, or in a build without --config=cuda.
absl::StatusOr<std::vector<float>> MultiplyFilled(int size, float a, float b);

}  // namespace shoal

#endif  // SHOAL_TESTS_TOOLCHAIN_CUBLASLT_MATMUL_H_
