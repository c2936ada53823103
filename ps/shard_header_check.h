// Checks that a checkpoint can hold the slices of a ps in one shard.
#ifndef SHOAL_PS_SHARD_HEADER_CHECK_H_
#define SHOAL_PS_SHARD_HEADER_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/v1/variable.pb.h"
#include "runtime/variables/partitioned_store.h"

namespace shoal {

// The approximate size of the header of a ps's shard, which names all tensors in the shard.
struct ShardHeaderNeed {
  uint64_t num_buckets = 0;   // buckets of tables that the ps has
  uint64_t bucket_bytes = 0;  // bytes of the header for all buckets, if each of them has rows
  uint64_t num_slices = 0;    // slices of dense variables that the ps has
  uint64_t slice_bytes = 0;   // bytes of the header for all of these slices
};

// Computes the need of `store`, which may not be loaded yet. `variables` are those of its table. In
// ASYNC each slice lists the batches that it has, in about as many ranges as there are workers;
// `num_async_workers` is 0 in SYNC.
ShardHeaderNeed ComputeShardHeaderNeed(const PartitionedStore& store,
                                       absl::Span<const v1::VariableSpec> variables,
                                       uint32_t num_async_workers);

// Returns FAILED_PRECONDITION with the remedy if the header would exceed what readers accept
// (kMostSafetensorsHeaderBytes). Buckets without rows have fewer tensors, so the header of an
// existing run may be smaller than its need.
absl::Status CheckShardHeader(const ShardHeaderNeed& need);

}  // namespace shoal

#endif  // SHOAL_PS_SHARD_HEADER_CHECK_H_
