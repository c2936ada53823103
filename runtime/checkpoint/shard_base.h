// A shard may contain only the rows that changed since older shards, its bases. ShardBase is one of
// them, and the functions here encode their list.
#ifndef SHOAL_RUNTIME_CHECKPOINT_SHARD_BASE_H_
#define SHOAL_RUNTIME_CHECKPOINT_SHARD_BASE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "proto/v1/checkpoint.pb.h"

namespace shoal {

// The key of their text in the metadata of a shard.
inline constexpr char kShardBasesKey[] = "base";

struct ShardBase {
  std::string checkpoint;  // the name of its checkpoint's directory, beside that of the shard
  v1::ShardFile file;      // the checksum of the whole file is not set
};

// Returns text such as "ckpt-20-1-0000000000000001 shard-00000-of-00002.safetensors
// shard-00000-of-00002.crc32c 4096 1234567" for each shard, with ';' between them: the size of the
// file and the checksum of its sidecar.
std::string EncodeShardBases(absl::Span<const ShardBase> bases);
// Returns DataLoss if the text has another form. There is at least one shard.
absl::StatusOr<std::vector<ShardBase>> DecodeShardBases(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SHARD_BASE_H_
