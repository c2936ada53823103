#ifndef SHOAL_RUNTIME_VARIABLES_ROW_PAYLOAD_H_
#define SHOAL_RUNTIME_VARIABLES_ROW_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "runtime/tables/bucket_rows.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/fold.h"

namespace shoal {

// The payload of ContributionKind::kRows, which a batch contributes to one bucket: u32 count, u32
// zero, `count` rising u64 keys, then `dim` floats for each key: the gradient of the batch's mean
// loss with respect to that row. A batch that touches no row of the bucket sends no bytes.

struct RowGradients {
  absl::Span<const uint64_t> keys;
  const float* gradients = nullptr;
};

// The bytes of a payload with that many keys.
size_t RowPayloadBytes(size_t num_keys, size_t dim);
// Writes a payload of RowPayloadBytes(rows.keys.size(), dim).
void EncodeRows(const RowGradients& rows, size_t dim, char* payload);

// Memory for a payload that is not aligned for its numbers.
using RowScratch = std::vector<uint64_t>;
// Returns the payload's rows, which point into it or into the scratch; nullopt if it is not a
// payload of rows of `dim` floats with rising keys.
std::optional<RowGradients> DecodeRows(const Payload& payload, size_t dim, RowScratch* scratch);

// Returns whether all gradients are finite.
bool RowsAreFinite(const RowGradients& rows, size_t dim);

// Returns DATA_LOSS, saying what is wrong, unless these can be the rows of a bucket at the version.
absl::Status CheckBucketRows(const BucketRows& rows, uint64_t version, size_t row_floats);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_ROW_PAYLOAD_H_
