// Runs one CPU kernel on given values, for tests.
#ifndef SHOAL_ML_KERNELS_CPU_KERNEL_RUNNER_TESTING_H_
#define SHOAL_ML_KERNELS_CPU_KERNEL_RUNNER_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal::cpu {

// The value of a tensor. The elements are in the list of its dtype; the other lists are empty.
struct Value {
  TensorSpec spec;
  std::vector<float> floats;
  std::vector<int32_t> ints;
  std::vector<uint8_t> bytes;

  const void* data() const;
  void* data();
};

Value Floats(const Shape& shape, std::vector<float> values);
Value Ints(const Shape& shape, std::vector<int32_t> values);
Value Bytes(const Shape& shape, std::vector<uint8_t> values);
// Returns pseudo-random numbers in [-scale, scale], which depend only on the shape and the seed.
Value RandomFloats(const Shape& shape, uint32_t seed, float scale = 1.0f);
// Returns a value of this spec whose elements have a bit pattern that no kernel writes.
Value Unwritten(const TensorSpec& spec);

// Convert images to blocks of 16 channels and back.
Value ToBlocked(const Value& images);
Value ToPlain(const Value& images);

struct RunOptions {
  int threads = 1;
  CpuIsa isa = CpuIsa::kGeneric;
  std::vector<bool> output_needed = {};  // indexed by output; outputs behind its end are needed
};

// Runs the kernel once and returns outputs of the given specs; those that are not needed are as
// Unwritten made them.
absl::StatusOr<std::vector<Value>> RunKernel(const std::string& op, const Attributes& attributes,
                                             const std::vector<Value>& inputs,
                                             const std::vector<TensorSpec>& outputs,
                                             const RunOptions& options);

// Returns all instruction sets of this machine.
std::vector<CpuIsa> AllIsas();

// Returns the largest |a - b| / (1 + |b|). It is infinity if the sizes differ, or if two elements
// differ and one of them is not finite.
double LargestError(const std::vector<float>& a, const std::vector<float>& b);
// Returns the largest |a - b| divided by the largest |b|. Use it for sums of many products, where
// small results are differences of large numbers.
double ErrorToScale(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_KERNEL_RUNNER_TESTING_H_
