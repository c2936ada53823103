// The speed limit of this core at this moment: what a computation of known size is measured
// against, in the same run.
#ifndef SHOAL_TESTS_BENCHMARK_FMA_PEAK_H_
#define SHOAL_TESTS_BENCHMARK_FMA_PEAK_H_

namespace shoal {

// CPU seconds of the calling thread.
double ThreadCpuSeconds();

// float32 operations per CPU second of independent multiply-adds in registers, on the calling
// thread, over about 5 ms.
double MeasureFmaPeak();

}  // namespace shoal

#endif  // SHOAL_TESTS_BENCHMARK_FMA_PEAK_H_
