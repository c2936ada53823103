// Changes of a bucket's rows between two versions of one lineage.
#ifndef SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_
#define SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_

#include <cstdint>

#include "runtime/variables/bucket_rows.h"

namespace shoal {

// Returns the number of rows that were touched after the version.
uint64_t CountChanges(const BucketRows& rows, uint64_t since);

// Returns the rows that were touched after the version, and all counts.
BucketRows ChangesSince(const BucketRows& rows, uint64_t since);

// Returns the rows of a bucket at `version`: those of `base`, which are of an earlier version, with
// the changes since then. Rows of `base` that are idle at `version` (TableOptions::idle_updates)
// have expired, so a delta needs no list of removed rows.
BucketRows ApplyChanges(const BucketRows& base, const BucketRows& changes, uint64_t version,
                        uint32_t idle_updates);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_BUCKET_DELTA_H_
