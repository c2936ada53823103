// Measures the peak speed of the current core at this moment. Benchmarks compare the speed of a
// computation with it, in the same run.
#ifndef SHOAL_TESTS_BENCHMARK_FMA_PEAK_H_
#define SHOAL_TESTS_BENCHMARK_FMA_PEAK_H_

namespace shoal {

// Returns the CPU time of the calling thread in seconds.
double ThreadCpuSeconds();

// Returns the number of float32 operations per CPU second that the calling thread does with
// independent multiply-adds in registers. Measures for about 5 ms.
double MeasureFmaPeak();

}  // namespace shoal

#endif  // SHOAL_TESTS_BENCHMARK_FMA_PEAK_H_
