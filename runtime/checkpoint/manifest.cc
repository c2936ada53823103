#include "runtime/checkpoint/manifest.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checksummed_file.h"
#include "runtime/checkpoint/little_endian.h"

namespace shoal {
namespace {

constexpr absl::string_view kMagic = "SHOALMAN";
constexpr size_t kHeadBytes = 16;
constexpr uint64_t kMostManifestBytes = uint64_t{1} << 30;

absl::Status CheckFileName(const std::string& name) {
  const bool is_plain = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
                        name.find('\0') == std::string::npos && name != kManifestFile;
  if (is_plain) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("shard file name \"", name, "\" is not a plain name"));
}

absl::Status CheckManifest(const v1::Manifest& manifest) {
  if (manifest.min_reader_version() > kCheckpointFormatVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "needs a program that reads checkpoint format ", manifest.min_reader_version(),
        ", this one reads up to ", kCheckpointFormatVersion, "; use the newer program"));
  }
  if (manifest.format_version() == 0) return absl::DataLossError("has no format version");
  for (const v1::ShardFile& shard : manifest.shards()) {
    RETURN_IF_ERROR(CheckFileName(shard.name()));
    RETURN_IF_ERROR(CheckFileName(shard.sidecar()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeManifest(const v1::Manifest& manifest) {
  const std::string payload = manifest.SerializeAsString();
  std::string bytes(kMagic);
  bytes.resize(kHeadBytes);
  StoreLittleEndian(static_cast<uint32_t>(payload.size()), &bytes[8]);
  StoreLittleEndian(Crc32c(payload), &bytes[12]);
  return bytes + payload;
}

absl::StatusOr<v1::Manifest> DecodeManifest(absl::string_view bytes) {
  if (bytes.size() < kHeadBytes || bytes.substr(0, kMagic.size()) != kMagic ||
      LoadLittleEndian<uint32_t>(&bytes[8]) != bytes.size() - kHeadBytes) {
    return absl::DataLossError("is not a manifest, or is truncated");
  }
  const absl::string_view payload = bytes.substr(kHeadBytes);
  v1::Manifest manifest;
  if (Crc32c(payload) != LoadLittleEndian<uint32_t>(&bytes[12]) ||
      !manifest.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("is damaged: its checksum is wrong");
  }
  RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

absl::StatusOr<v1::Manifest> ReadManifest(FileSystem& file_system, const std::string& directory) {
  const std::string path = JoinPath(directory, kManifestFile);
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file_system, path, kMostManifestBytes));
  absl::StatusOr<v1::Manifest> manifest = DecodeManifest(bytes);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(),
                      absl::StrCat(path, " ", manifest.status().message()));
}

absl::Status WriteManifest(FileSystem& file_system, const std::string& directory,
                           v1::Manifest manifest) {
  manifest.set_format_version(kCheckpointFormatVersion);
  manifest.set_min_reader_version(kCheckpointFormatVersion);
  const std::string bytes = EncodeManifest(manifest);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChecksummedFileWriter> file,
      ChecksummedFileWriter::Create(file_system, directory, kManifestFile, bytes.size()));
  RETURN_IF_ERROR(file->Append(bytes));
  RETURN_IF_ERROR(file->Finish().status());
  return file_system.SyncDirectory(directory);
}

}  // namespace shoal
