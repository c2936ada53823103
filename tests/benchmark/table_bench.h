// (testonly) What the benchmarks of tables draw and measure.
#ifndef SHOAL_TESTS_BENCHMARK_TABLE_BENCH_H_
#define SHOAL_TESTS_BENCHMARK_TABLE_BENCH_H_

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace shoal {

// Returns the rank of a key by the inverse of the continuous approximation of Zipf's distribution
// with the exponent 1.05. `bits` are random.
inline uint64_t ZipfRank(uint64_t bits, uint64_t num_keys) {
  const double uniform = static_cast<double>(bits) / 0x1p64;
  const double power = 1 - 1.05;
  const double top = std::pow(static_cast<double>(num_keys), power);
  const double rank = std::pow(uniform * (top - 1) + 1, 1 / power);
  return std::min<uint64_t>(num_keys - 1, static_cast<uint64_t>(rank) - 1);
}

// Returns the CPU time of this thread: other programs of the machine do not count.
inline int64_t CpuNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Sorts the numbers.
inline double Median(std::vector<double>* numbers) {
  std::sort(numbers->begin(), numbers->end());
  return (*numbers)[numbers->size() / 2];
}

}  // namespace shoal

#endif  // SHOAL_TESTS_BENCHMARK_TABLE_BENCH_H_
