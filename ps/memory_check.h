// Estimates the memory that a shard needs and refuses the shard, before anything is allocated, if
// the ps may not use that much.
#ifndef SHOAL_PS_MEMORY_CHECK_H_
#define SHOAL_PS_MEMORY_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "base/memory_limit.h"
#include "runtime/variables/partitioned_store.h"

namespace shoal {

// The memory that a ps may use, in bytes, and the bounds derived from it.
struct MemoryBounds {
  MemoryLimit limit;
  // The gRPC quota for the messages of all connections: a quarter of the limit.
  uint64_t messages = 0;
  // Contributions that arrived out of order: an eighth of the limit, at most 256 MiB.
  uint64_t staging = 0;
};

// Returns text such as "712 MiB", rounded up.
std::string InMebibytes(uint64_t bytes);

// Combines `ps_memory` (the run's cluster.ps_memory; 0: the kernel's limit alone) with the kernel's
// limit; the lower one holds.
MemoryBounds ComputeMemoryBounds(uint64_t ps_memory, const MemoryLimit& kernel);

// The bytes that a ps needs at most, by purpose. Memory shared with workers on the same host
// belongs to the workers and is not counted.
struct MemoryNeed {
  // Three versions of the values: the newest, the previous, and one that a reply still uses.
  uint64_t values = 0;
  uint64_t sums = 0;      // SYNC: sums of the contributions to the next version.
  uint64_t slots = 0;     // The optimizer's slots.
  uint64_t snapshot = 0;  // Values and slots of a checkpoint that is being written.
  uint64_t staging = 0;   // SYNC: contributions that arrived before their turn.
  uint64_t messages = 0;  // Messages from workers that are being received.
  uint64_t copies = 0;    // Copies of messages that wait until another thread is done with a part.
  uint64_t process = 0;   // The program and its threads.
  // The rows of tables are not in it: they are counted while they grow (TableMemory).

  uint64_t total() const;
  // Returns text such as "712 MiB (three versions of the values 240 MiB, ...)".
  std::string Describe() const;
};

struct MemoryUse {
  bool synchronous = true;
  uint32_t replicas_to_aggregate = 1;
  uint32_t num_workers = 1;
};
// Estimates the need of `store`, which has been created but not loaded yet.
MemoryNeed EstimateMemory(const PartitionedStore& store, const MemoryUse& use,
                          const MemoryBounds& bounds);

// Returns FAILED_PRECONDITION if the need exceeds the limit, RESOURCE_EXHAUSTED if it exceeds the
// memory that is free now.
absl::Status CheckMemory(const MemoryNeed& need, const MemoryBounds& bounds);

}  // namespace shoal

#endif  // SHOAL_PS_MEMORY_CHECK_H_
