// Changes of a bucket's rows between versions of one lineage.
#ifndef SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_
#define SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_

#include <cstdint>

#include "absl/types/span.h"

#include "runtime/tables/bucket_rows.h"

namespace shoal {

// Returns the keys of a bucket at `version`. The first layer has all keys of an earlier version,
// with their rows or counts, each of the others those that were touched since the layer before it,
// until `version`. Keys that are idle at `version` (TableOptions::idle_updates) have expired, so a
// layer needs no list of removed ones.
BucketRows ApplyChanges(absl::Span<const BucketRows> layers, uint64_t version,
                        uint32_t idle_updates);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_
