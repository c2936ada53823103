// MANIFEST, the file that makes a checkpoint exist. It is written last and names all other files.
//
//   "SHOALMAN"
//   u32  bytes of the payload
//   u32  CRC32C of the payload
//   the payload: a serialized shoal.v1.Manifest
//
// The numbers are little-endian.
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
// The format that this program writes, and the newest that it reads.
inline constexpr uint32_t kCheckpointFormatVersion = 5;

std::string EncodeManifest(const v1::Manifest& manifest);

// Returns DataLoss if the manifest is truncated, damaged, or has names outside the checkpoint's
// directory; Unimplemented if it was written by a newer program whose format this one cannot read.
absl::StatusOr<v1::Manifest> DecodeManifest(absl::string_view bytes);

// Reads and decodes the manifest. Errors name the file.
absl::StatusOr<v1::Manifest> ReadManifest(FileSystem& file_system, const std::string& directory);

// Sets the format's version and writes the manifest durably and atomically. Returns AlreadyExists
// if there is another one; the same manifest may be written again, after an error.
absl::Status WriteManifest(FileSystem& file_system, const std::string& directory,
                           v1::Manifest manifest);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_MANIFEST_H_
