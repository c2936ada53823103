#include "ml/data/ids/text_hash.h"

// All of the library is in its header, so programs do not need its shared library.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shoal {

uint64_t HashText(absl::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace shoal
