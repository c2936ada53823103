#include "ml/kernels/cpu/parallel.h"

#include <algorithm>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHOAL_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define SHOAL_THREAD_SANITIZER 1
#endif

extern "C" {
// libgomp's stable entry points (GCC's manual, "The libgomp ABI").
void GOMP_parallel(void (*function)(void*), void* data, unsigned num_threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
#if SHOAL_THREAD_SANITIZER
// libgomp is not instrumented, so these functions tell the thread sanitizer about the fork and the
// join of a team.
void __tsan_acquire(void* address);
void __tsan_release(void* address);
#endif
}

namespace shoal::cpu {
namespace {

struct Team {
  int64_t count;
  internal::RangeFunction function;
  void* body;
};

void Acquire([[maybe_unused]] Team* team) {
#if SHOAL_THREAD_SANITIZER
  __tsan_acquire(team);
#endif
}

void Release([[maybe_unused]] Team* team) {
#if SHOAL_THREAD_SANITIZER
  __tsan_release(team);
#endif
}

void RunMember(void* data) {
  Team* team = static_cast<Team*>(data);
  Acquire(team);
  const int64_t members = omp_get_num_threads();
  const int64_t member = omp_get_thread_num();
  const int64_t begin = team->count * member / members;
  const int64_t end = team->count * (member + 1) / members;
  if (begin < end) team->function(team->body, begin, end);
  Release(team);
}

}  // namespace

void SetOmpThreads(int threads) { omp_set_num_threads(threads); }

OmpThreadsScope::OmpThreadsScope(int threads) : before_(omp_get_max_threads()) {
  if (before_ != threads) omp_set_num_threads(threads);
}

OmpThreadsScope::~OmpThreadsScope() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

namespace internal {

void RunParallel(int threads, int64_t count, RangeFunction function, void* body) {
  Team team{count, function, body};
  Release(&team);
  GOMP_parallel(RunMember, &team, static_cast<unsigned>(std::min<int64_t>(threads, count)), 0);
  Acquire(&team);
}

}  // namespace internal
}  // namespace shoal::cpu
