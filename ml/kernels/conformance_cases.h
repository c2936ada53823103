// The cases (ops, attributes and inputs) in which every kernel must agree with the reference.
#ifndef SHOAL_ML_KERNELS_CONFORMANCE_CASES_H_
#define SHOAL_ML_KERNELS_CONFORMANCE_CASES_H_

#include <string>
#include <vector>

#include "ml/kernels/op_runner.h"

namespace shoal {

struct ConformanceCase {
  std::string name;  // unique; starts with the op
  // Floating-point values are float32, and bfloat16 in cases of products and of conversions.
  OpCall call;
  // The largest allowed difference from the float64 reference, divided by the largest absolute
  // value in the output.
  double tolerance = 1e-5;
  // The fraction of a byte output's elements (winners of a pool) that may differ, because rounding
  // may decide between two almost equal elements.
  double byte_mismatch = 0;
  // If larger than `tolerance`, it replaces it for devices with their own memory. Convolutions of
  // bfloat16 need it if the device's library rounds their outputs.
  double device_tolerance = 0;
  // True if kernels may refuse to run without output 0.
  bool needs_first_output = false;
};

// Returns all cases, the same in every process.
std::vector<ConformanceCase> ConformanceCases();

// Returns calls with a NaN in one input. A kernel's output must be NaN wherever the reference's is.
std::vector<ConformanceCase> NanCases();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CONFORMANCE_CASES_H_
