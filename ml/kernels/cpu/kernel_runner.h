// Runs one CPU kernel on given values: for tests.
#ifndef SHOAL_ML_KERNELS_CPU_KERNEL_RUNNER_H_
#define SHOAL_ML_KERNELS_CPU_KERNEL_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal::cpu {

// A tensor's value; the one of the three lists that the dtype names holds the elements.
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
// Fixed pseudo-random numbers in [-scale, scale]; different seeds give different ones.
Value RandomFloats(const Shape& shape, uint32_t seed, float scale = 1.0f);
// An empty value of that spec, filled with a bit pattern that no kernel writes.
Value Unwritten(const TensorSpec& spec);

// The same images in blocks of 16 channels, and back.
Value ToBlocked(const Value& images);
Value ToPlain(const Value& images);

struct RunOptions {
  int threads = 1;
  CpuIsa isa = CpuIsa::kGeneric;
  std::vector<bool> output_needed = {};
};

// The outputs, of the given specs; those not needed stay as Unwritten.
absl::StatusOr<std::vector<Value>> RunKernel(const std::string& op, const Attributes& attributes,
                                             const std::vector<Value>& inputs,
                                             const std::vector<TensorSpec>& outputs,
                                             const RunOptions& options);

// Every instruction set that this machine has.
std::vector<CpuIsa> AllIsas();

// The largest |a - b| / (1 + |b|); infinity where one is not finite and they differ, or sizes
// differ.
double LargestError(const std::vector<float>& a, const std::vector<float>& b);
// The largest |a - b| over the largest |b|: for sums of many products, where small results are
// differences of large ones.
double ErrorToScale(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_KERNEL_RUNNER_H_
