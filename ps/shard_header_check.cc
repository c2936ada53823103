#include "ps/shard_header_check.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/slice_state.h"
#include "runtime/plan/slice_table.h"

namespace shoal {
namespace {

// The bytes of a tensor's entry beside its name: type, shape and two offsets of twelve digits.
constexpr uint64_t kBytesPerTensor = 84;
// The bytes of a slice's state beside its name: two versions and, in ASYNC, the beginning of its
// batches.
constexpr uint64_t kBytesPerState = 64;
// ASYNC: the bytes of a range of batches. A worker that has not finished its batches makes a gap
// between two of them.
constexpr uint64_t kBytesPerRange = 16;

// Returns the suffixes of the names of a slice's tensors.
std::vector<std::string> TensorsOf(const PartitionedStore& store, uint32_t slice,
                                   const v1::VariableSpec& variable) {
  std::vector<std::string> tensors = store.slot_names(slice);
  if (!variable.has_table()) {
    tensors.emplace_back();
    return tensors;
  }
  tensors.insert(tensors.end(), {kBucketKeys, kBucketTouched, kBucketValues});
  if (variable.table().min_count() > 1) {
    tensors.insert(tensors.end(), {kBucketCountedKeys, kBucketCounts, kBucketCountedTouched});
  }
  return tensors;
}

}  // namespace

ShardHeaderNeed ComputeShardHeaderNeed(const PartitionedStore& store,
                                       absl::Span<const v1::VariableSpec> variables,
                                       uint32_t num_async_workers) {
  ShardHeaderNeed need;
  std::map<uint32_t, std::vector<std::string>> tensors_of_variable;
  for (const uint32_t slice : store.owned()) {
    const uint32_t v = store.table()[slice].variable;
    const v1::VariableSpec& variable = variables[v];
    std::vector<std::string>& tensors = tensors_of_variable[v];
    if (tensors.empty()) tensors = TensorsOf(store, slice, variable);
    const std::string name =
        EncodeSliceName({variable.name(), slice - store.table().first_slice_of(v), ""});
    uint64_t bytes = kBytesPerState + kBytesPerRange * num_async_workers + name.size();
    for (const std::string& tensor : tensors) {
      bytes += kBytesPerTensor + name.size() + tensor.size();
    }
    const bool is_bucket = store.table()[slice].is_bucket;
    ++(is_bucket ? need.num_buckets : need.num_slices);
    (is_bucket ? need.bucket_bytes : need.slice_bytes) += bytes;
  }
  return need;
}

absl::Status CheckShardHeader(const ShardHeaderNeed& need) {
  const uint64_t bytes = need.bucket_bytes + need.slice_bytes;
  if (bytes <= kMostSafetensorsHeaderBytes) return absl::OkStatus();
  const bool by_buckets = need.bucket_bytes > need.slice_bytes;
  return absl::FailedPreconditionError(absl::StrFormat(
      "this ps has %d %s; the header of its part of a checkpoint would have about %d MB, and "
      "readers accept at most %d MB: use more ps tasks, or start a new run with %s",
      by_buckets ? need.num_buckets : need.num_slices, by_buckets ? "buckets of tables" : "slices",
      bytes / 1000000, kMostSafetensorsHeaderBytes / 1000000,
      by_buckets ? "fewer `buckets` in its tables" : "a larger cluster.slice_bytes"));
}

}  // namespace shoal
