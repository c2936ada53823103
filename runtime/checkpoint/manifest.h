// MANIFEST, the file that makes a checkpoint: it is written last and names all others.
//
//   "SHOALMAN"  u32 payload bytes  u32 CRC32C of the payload  payload: a serialized
//   shoal.v1.Manifest
// little-endian.
#ifndef SHOAL_RUNTIME_CHECKPOINT_MANIFEST_H_
#define SHOAL_RUNTIME_CHECKPOINT_MANIFEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"

namespace shoal {

inline constexpr char kManifestFile[] = "MANIFEST";
inline constexpr uint32_t kCheckpointFormatVersion = 1;

std::string EncodeManifest(const v1::Manifest& manifest);

// DataLoss: truncated, damaged, or names that would leave the checkpoint's directory.
// Unimplemented: written by a newer program that says that this one cannot read it.
absl::StatusOr<v1::Manifest> DecodeManifest(absl::string_view bytes);

// Errors name the file.
absl::StatusOr<v1::Manifest> ReadManifest(FileSystem& file_system, const std::string& directory);

// Sets the format's version and makes the checkpoint exist, durably, all at once. AlreadyExists if
// it does.
absl::Status WriteManifest(FileSystem& file_system, const std::string& directory,
                           v1::Manifest manifest);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_MANIFEST_H_
