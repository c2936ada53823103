// Changes of a bucket's rows between versions of one lineage.
#ifndef SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_
#define SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_

#include <cstdint>

#include "absl/types/span.h"

#include "runtime/tables/bucket_rows.h"

namespace shoal {

// Returns the rows and counts of a bucket at `version`. Each key of a layer has either a row (the
// key is admitted) or a count (it is not admitted yet). The first layer has all keys of an earlier
// version; each later layer has only those that were touched after the layer before it, and the
// last layer reaches up to `version`. The newest layer that has a key counts. Keys that are idle at
// `version` (TableOptions::idle_updates) have expired, so no layer lists removed keys.
BucketRows ApplyChanges(absl::Span<const BucketRows> layers, uint64_t version,
                        uint32_t idle_updates);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_
