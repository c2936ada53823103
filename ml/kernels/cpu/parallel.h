// Loops over threads of the calling thread's OpenMP team, the one that oneDNN uses as well, so that
// a device has one set of threads and no more. libgomp is called by its entry points, not by
// pragmas: the result is the same with every compiler.
#ifndef SHOAL_ML_KERNELS_CPU_PARALLEL_H_
#define SHOAL_ML_KERNELS_CPU_PARALLEL_H_

#include <cstdint>

namespace shoal::cpu {

// The calling thread's OpenMP team size from now on.
void SetOmpThreads(int threads);

// Sets the calling thread's OpenMP team size for its scope: oneDNN takes it from there.
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

// Calls body(begin, end) for consecutive ranges that cover [0, count), at most one for each thread;
// the cut depends on count and threads alone. Does not allocate after the team's first use.
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
