#include "runtime/checkpoint/shard_base.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

bool IsPlainName(absl::string_view name) {
  return !name.empty() && name[0] != '.' && name.find('/') == absl::string_view::npos &&
         name.find('\0') == absl::string_view::npos;
}

absl::StatusOr<ShardBase> DecodeBase(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  uint64_t bytes = 0;
  uint32_t sidecar_crc32c = 0;
  if (parts.size() != 5 || !std::all_of(parts.begin(), parts.begin() + 3, &IsPlainName) ||
      !absl::SimpleAtoi(parts[3], &bytes) || !absl::SimpleAtoi(parts[4], &sidecar_crc32c)) {
    return absl::DataLossError(absl::StrCat("\"", text, "\" does not name the base of a shard"));
  }
  ShardBase base;
  base.checkpoint = parts[0];
  base.file.set_name(parts[1]);
  base.file.set_sidecar(parts[2]);
  base.file.set_bytes(bytes);
  base.file.set_sidecar_crc32c(sidecar_crc32c);
  return base;
}

}  // namespace

std::string EncodeShardBases(absl::Span<const ShardBase> bases) {
  return absl::StrJoin(bases, ";", [](std::string* text, const ShardBase& base) {
    absl::StrAppend(text, base.checkpoint, " ", base.file.name(), " ", base.file.sidecar(), " ",
                    base.file.bytes(), " ", base.file.sidecar_crc32c());
  });
}

absl::StatusOr<std::vector<ShardBase>> DecodeShardBases(absl::string_view text) {
  std::vector<ShardBase> bases;
  for (const absl::string_view part : absl::StrSplit(text, ';')) {
    ASSIGN_OR_RETURN(ShardBase base, DecodeBase(part));
    bases.push_back(std::move(base));
  }
  return bases;
}

}  // namespace shoal
