// The cases in which every kernel must agree with the reference: ops, attributes and values.
#ifndef SHOAL_ML_KERNELS_CONFORMANCE_CASES_H_
#define SHOAL_ML_KERNELS_CONFORMANCE_CASES_H_

#include <string>
#include <vector>

#include "ml/kernels/op_runner.h"

namespace shoal {

struct ConformanceCase {
  std::string name;  // unique; the op first
  OpCall call;       // float32, but for bfloat16 inputs of products
  // Largest difference from the float64 reference, as a share of the largest magnitude in the
  // output.
  double tolerance = 1e-5;
  // Share of the elements of a byte output (winners of a pool) that may differ: where rounding
  // decides between two almost equal elements.
  double byte_mismatch = 0;
  // The same for devices with memory of their own, if larger: convolutions of bfloat16 whose
  // library rounds what it gives.
  double device_tolerance = 0;
  // Kernels may refuse to leave output 0 out.
  bool needs_first_output = false;
};

// The same cases in every process.
std::vector<ConformanceCase> ConformanceCases();

// Calls with NaN in one input: where the reference's output is NaN, a kernel's must be.
std::vector<ConformanceCase> NanCases();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CONFORMANCE_CASES_H_
