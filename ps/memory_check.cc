#include "ps/memory_check.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

#include "ps/shard_strand.h"
#include "runtime/plan/slice_table.h"

namespace shoal {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;
constexpr uint64_t kMostStaging = 256 * kMebibyte;
constexpr uint64_t kVersions = 3;
// A connection has at most 64 streams (grpc_server.cc), and a worker's messages are of 1 MiB
// (MakeExchangeGroups).
constexpr uint64_t kMessagesOfAWorker = 64 * kMebibyte;
constexpr uint64_t kMessage = kMebibyte;  // Or one slice, if that is larger.
constexpr uint64_t kProcess = 32 * kMebibyte;

}  // namespace

std::string InMebibytes(uint64_t bytes) {
  return absl::StrCat((bytes + kMebibyte - 1) / kMebibyte, " MiB");
}

MemoryBounds ComputeMemoryBounds(uint64_t ps_memory, const MemoryLimit& kernel) {
  MemoryBounds bounds;
  bounds.limit = kernel;
  if (ps_memory > 0 && ps_memory < kernel.bytes) {
    bounds.limit.bytes = ps_memory;
    bounds.limit.set_by = "cluster.ps_memory";
    bounds.limit.available = std::min(kernel.available, ps_memory);
  }
  bounds.messages = bounds.limit.bytes / 4;
  bounds.staging = std::min(kMostStaging, bounds.limit.bytes / 8);
  return bounds;
}

uint64_t MemoryNeed::total() const {
  return values + sums + slots + snapshot + staging + messages + copies + process;
}

std::string MemoryNeed::Describe() const {
  return absl::StrCat(InMebibytes(total()), " (three versions of the values ", InMebibytes(values),
                      ", sums ", InMebibytes(sums), ", optimizer slots ", InMebibytes(slots),
                      ", a snapshot ", InMebibytes(snapshot), ", contributions before their turn ",
                      InMebibytes(staging), ", messages ", InMebibytes(messages),
                      ", copies of messages that wait ", InMebibytes(copies), ", the process ",
                      InMebibytes(process), ")");
}

MemoryNeed EstimateMemory(const PartitionedStore& store, const MemoryUse& use,
                          const MemoryBounds& bounds) {
  uint64_t values = 0;
  uint64_t slots = 0;
  uint64_t message = kMessage;
  std::map<uint32_t, uint64_t> slots_of_variable;
  for (const uint32_t slice : store.owned()) {
    if (store.table()[slice].is_bucket) continue;
    const uint32_t variable = store.table()[slice].variable;
    auto known = slots_of_variable.find(variable);
    if (known == slots_of_variable.end()) {
      known = slots_of_variable.emplace(variable, store.slot_names(slice).size()).first;
    }
    const uint64_t bytes = store.table()[slice].num_bytes();
    values += bytes;
    message = std::max(message, bytes);
    slots += known->second * bytes;
  }
  const uint64_t others = std::max<uint64_t>(use.replicas_to_aggregate, 1) - 1;
  const uint64_t workers = std::max<uint64_t>(use.num_workers, 1);
  MemoryNeed need;
  need.values = kVersions * values;
  need.sums = use.synchronous ? values : 0;
  need.slots = slots;
  need.snapshot = values + slots;
  need.staging = use.synchronous ? std::min(others * values, bounds.staging) : 0;
  need.messages = std::min(workers * std::min(values, kMessagesOfAWorker), bounds.messages);
  // Each part has those that wait and the one that is being applied.
  const uint64_t most_copies = store.num_parts() * ShardStrand::kMostJobs * message;
  need.copies = std::min(most_copies, workers * std::min(values, kMessagesOfAWorker));
  need.process = kProcess;
  return need;
}

absl::Status CheckMemory(const MemoryNeed& need, const MemoryBounds& bounds) {
  const char kRemedy[] = "; use more ps tasks, or machines with more memory";
  const MemoryLimit& limit = bounds.limit;
  if (need.total() > limit.bytes) {
    return absl::FailedPreconditionError(absl::StrCat("this ps needs about ", need.Describe(),
                                                      ", but ", limit.set_by, " allows ",
                                                      InMebibytes(limit.bytes), kRemedy));
  }
  if (need.total() > limit.available) {
    return absl::ResourceExhaustedError(absl::StrCat("this ps needs about ", need.Describe(),
                                                     ", but only ", InMebibytes(limit.available),
                                                     " are free now", kRemedy));
  }
  return absl::OkStatus();
}

}  // namespace shoal
