// Runs loops on the calling thread's OpenMP team. oneDNN uses the same team, so that a device has
// only one set of threads. The code calls libgomp's entry points instead of using pragmas, so that
// it is the same with every compiler.
#ifndef SHOAL_ML_KERNELS_CPU_PARALLEL_H_
#define SHOAL_ML_KERNELS_CPU_PARALLEL_H_

#include <cstdint>

namespace shoal::cpu {

// Sets the size of the calling thread's OpenMP team.
void SetOmpThreads(int threads);

// Sets the size of the calling thread's OpenMP team, which oneDNN uses, until the destructor
// restores the previous size.
class OmpThreadsScope {
 public:
  explicit OmpThreadsScope(int threads);
  ~OmpThreadsScope();
  OmpThreadsScope(const OmpThreadsScope&) = delete;
  OmpThreadsScope& operator=(const OmpThreadsScope&) = delete;

 private:
  int before_;
};

namespace internal {
using RangeFunction = void (*)(void* body, int64_t begin, int64_t end);
void RunParallel(int threads, int64_t count, RangeFunction function, void* body);
}  // namespace internal

// Calls body(begin, end) concurrently for consecutive ranges that cover [0, count), at most one for
// each thread. The ranges depend only on `count` and `threads`. Returns when all calls have
// returned. Does not allocate after the team's first use.
template <typename Body>
void ParallelFor(int threads, int64_t count, Body body) {
  if (threads <= 1 || count <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  internal::RunParallel(
      threads, count,
      [](void* b, int64_t begin, int64_t end) { (*static_cast<Body*>(b))(begin, end); }, &body);
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_PARALLEL_H_
