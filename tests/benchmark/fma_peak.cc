#include "tests/benchmark/fma_peak.h"

#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shoal {
namespace {

// Each runs `rounds` rounds of 12 independent chains and returns the operations done.

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double RunAvx512(int rounds) {
  __m512 sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i) * 1e-3f);
  __m512 x = _mm512_set1_ps(0.999f);
  __m512 y = _mm512_set1_ps(1e-4f);
  asm volatile("" : "+v"(x), "+v"(y));
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm512_fmadd_ps(sums[i], x, y);
  }
  for (int i = 0; i < 12; ++i) asm volatile("" : : "v"(sums[i]));
  return 12.0 * 16 * 2 * rounds;
}

__attribute__((target("avx2,fma"))) double RunAvx2(int rounds) {
  __m256 sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i) * 1e-3f);
  __m256 x = _mm256_set1_ps(0.999f);
  __m256 y = _mm256_set1_ps(1e-4f);
  asm volatile("" : "+x"(x), "+x"(y));
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_fmadd_ps(sums[i], x, y);
  }
  for (int i = 0; i < 12; ++i) asm volatile("" : : "x"(sums[i]));
  return 12.0 * 8 * 2 * rounds;
}
#endif

double RunGeneric(int rounds) {
  typedef float Four __attribute__((vector_size(16)));
  Four sums[12] = {};
  for (int r = 0; r < rounds; ++r) {
    for (Four& sum : sums) {
      sum = sum * 0.999f + 1e-4f;
      asm volatile("" : "+m"(sum));
    }
  }
  return 12.0 * 4 * 2 * rounds;
}

double Run(int rounds) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return RunAvx512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return RunAvx2(2 * rounds);
#endif
  return RunGeneric(rounds);
}

}  // namespace

double ThreadCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double MeasureFmaPeak() {
  const double start = ThreadCpuSeconds();
  const double operations = Run(1500000);
  return operations / (ThreadCpuSeconds() - start);
}

}  // namespace shoal
