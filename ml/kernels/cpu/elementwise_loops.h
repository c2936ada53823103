// The loops of elementwise kernels over their operands: in chunks for several threads, with
// broadcasting, in both layouts. Private to this folder.
#ifndef SHOAL_ML_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
#define SHOAL_ML_KERNELS_CPU_ELEMENTWISE_LOOPS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/broadcast_loop.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {

// The number of elements in a chunk, which one thread processes: 64 KiB of floats. Chunks begin at
// cache lines, and small tensors stay on one thread.
inline constexpr int64_t kElementChunk = 16384;

// Calls body(begin, end), on up to `threads` threads, for ranges that cover [0, n).
template <typename Body>
void ParallelChunks(int threads, int64_t n, Body body) {
  ParallelFor(threads, (n + kElementChunk - 1) / kElementChunk, [&](int64_t begin, int64_t end) {
    body(begin * kElementChunk, std::min(end * kElementChunk, n));
  });
}

// Calls body(outer, begin, end), on up to `threads` threads, for ranges that cover the loop:
// elements [begin, end) of the innermost dimension at outer iteration `outer`.
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

// Makes the loop over the elements of the first output; its operands are the inputs. Returns
// InvalidArgument if shapes or layouts do not fit.
absl::StatusOr<BroadcastLoop> ElementwiseLoop(const CpuRequest& request);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
