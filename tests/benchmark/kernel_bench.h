// Runs kernels one after the other on its own buffers, for benchmarks and tests of single kernels.
#ifndef SHOAL_TESTS_BENCHMARK_KERNEL_BENCH_H_
#define SHOAL_TESTS_BENCHMARK_KERNEL_BENCH_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ml/device/kernel.h"

namespace shoal {

// A list of kernel calls on named buffers. Ends the program with a message if a kernel cannot be
// made.
class KernelSequence {
 public:
  explicit KernelSequence(int threads) : threads_(threads) {}

  // Adds a buffer with fixed pseudo-random contents: floats in [-scale, scale], int32 in [0,
  // scale).
  void AddBuffer(const std::string& name, const TensorSpec& spec, float scale);

  // Adds another name and spec for the bytes of the buffer `of`.
  void AddAlias(const std::string& name, const std::string& of, const TensorSpec& spec);

  // Adds a call of a kernel on buffers that were added before. An output with the name "" is not
  // needed; its spec is `skipped_spec`.
  void AddKernel(const std::string& label, const std::string& op, const Attributes& attributes,
                 const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const TensorSpec& skipped_spec = {});

  // Runs all kernels once, and appends the CPU seconds of each one to its Timing.
  void Run();

  struct Timing {
    std::string label;
    std::vector<double> seconds;
  };
  const std::vector<Timing>& timings() const { return timings_; }

 private:
  struct Buffer {
    TensorSpec spec;
    std::shared_ptr<void> bytes;
  };
  struct Call {
    std::unique_ptr<Kernel> kernel;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };

  const int threads_;
  std::map<std::string, Buffer> buffers_;
  std::vector<Call> calls_;
  std::vector<Timing> timings_;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<void, void (*)(void*)> workspace_{nullptr, nullptr};
};

// Returns the median; the list must not be empty.
double Median(std::vector<double> values);

}  // namespace shoal

#endif  // SHOAL_TESTS_BENCHMARK_KERNEL_BENCH_H_
