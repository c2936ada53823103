#ifndef SHOAL_ML_DATA_IDS_TEXT_HASH_H_
#define SHOAL_ML_DATA_IDS_TEXT_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace shoal {

// Returns the key of a text: its XXH3-64 hash with seed 0, which other programs can compute with
// any library of xxHash.
uint64_t HashText(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDS_TEXT_HASH_H_
