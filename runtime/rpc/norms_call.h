// The size of the calls with which a ps reports the squared norms of its slices (ReportNorms).
#ifndef SHOAL_RUNTIME_RPC_NORMS_CALL_H_
#define SHOAL_RUNTIME_RPC_NORMS_CALL_H_

namespace shoal {

// A call has at most this many norms, about 360 kB, because a control message has at most 1 MiB. A
// call with exactly this many is followed by another one for the same step, so the chief answers it
// at once. The last one has fewer, possibly none, and the chief holds it until it has the norms of
// all ps.
inline constexpr int kMostNormsInACall = 1 << 15;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_NORMS_CALL_H_
