// How kernels on elements go over their operands: in chunks for threads, with broadcasting, in
// either layout. Private to this folder.
#ifndef SHOAL_ML_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
#define SHOAL_ML_KERNELS_CPU_ELEMENTWISE_LOOPS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/broadcast_loop.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {

// Elements that a thread takes at a time: 64 KiB, so that a chunk is not cut within a cache line
// and small tensors stay on one thread.
inline constexpr int64_t kElementChunk = 16384;

// body(begin, end) for ranges that cover [0, n).
template <typename Body>
void ParallelChunks(int threads, int64_t n, Body body) {
  ParallelFor(threads, (n + kElementChunk - 1) / kElementChunk, [&](int64_t begin, int64_t end) {
    body(begin * kElementChunk, std::min(end * kElementChunk, n));
  });
}

// body(outer, begin, end): elements [begin, end) of the innermost dimension at the outer iteration
// `outer` of the loop.
template <typename Body>
void ParallelBroadcast(int threads, const BroadcastLoop& loop, Body body) {
  const int64_t outer = loop.outer_count();
  const int64_t inner = loop.inner().size;
  if (outer == 1) {
    ParallelChunks(threads, inner, [&](int64_t begin, int64_t end) { body(0, begin, end); });
    return;
  }
  ParallelFor(outer * inner > kElementChunk ? threads : 1, outer, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i, 0, inner);
  });
}

// The loop over the first output's elements whose operands are the inputs; InvalidArgument where
// shapes or layouts do not fit.
absl::StatusOr<BroadcastLoop> ElementwiseLoop(const CpuRequest& request);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
