// What the memory of a ps is made of, how much of it there may be, and the refusal of a shard for
// which it is not enough, before anything of it is allocated.
#ifndef SHOAL_PS_MEMORY_CHECK_H_
#define SHOAL_PS_MEMORY_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "base/memory_limit.h"
#include "runtime/variables/partitioned_store.h"

namespace shoal {

// What a ps may use, in bytes, and what follows from it.
struct MemoryBounds {
  MemoryLimit limit;
  uint64_t messages = 0;  // gRPC's quota for messages of all connections: a quarter of the limit.
  uint64_t staging = 0;   // Contributions out of order: an eighth, at most 256 MiB.
};

// `ps_memory`: cluster.ps_memory of the run, 0: none; the lower one of both limits holds.
MemoryBounds MemoryBoundsOf(uint64_t ps_memory, const MemoryLimit& kernel);

// How many bytes a ps needs at most, by parts. Shared memory with workers on the same host is the
// workers' and not counted.
struct MemoryNeed {
  uint64_t values = 0;    // Three versions: the newest, the one before, one that a reply still has.
  uint64_t sums = 0;      // SYNC: of the contributions to the next version.
  uint64_t slots = 0;     // Of the optimizer.
  uint64_t snapshot = 0;  // Of a checkpoint that is being written: values and slots as they were.
  uint64_t staging = 0;   // SYNC: contributions that came before their turn.
  uint64_t messages = 0;  // On their way from workers.
  uint64_t process = 0;   // The program and its threads.

  uint64_t total() const;
  // "712 MiB (values 240, ...)".
  std::string Describe() const;
};

struct MemoryUse {
  bool synchronous = true;
  uint32_t replicas_to_aggregate = 1;
  uint32_t num_workers = 1;
};
// Of a store that was created and not loaded yet.
MemoryNeed EstimateMemory(const PartitionedStore& store, const MemoryUse& use,
                          const MemoryBounds& bounds);

// FAILED_PRECONDITION: more than the limit. RESOURCE_EXHAUSTED: more than there is now.
absl::Status CheckMemory(const MemoryNeed& need, const MemoryBounds& bounds);

}  // namespace shoal

#endif  // SHOAL_PS_MEMORY_CHECK_H_
