// Reads the files of a checkpoint's directory: manifest, sidecar, shard and its header, state of a
// slice. If a checksum precedes the content, the input is the content and gets the right checksum.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/crc32c.h"
#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/block_checksums.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/shard_reader.h"
#include "runtime/checkpoint/slice_state.h"
#include "tests/fuzz/fuzz_target.h"

namespace shoal {
namespace {

std::string Little32(uint32_t number) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &number, 4);
  return bytes;
}

void CheckError(const absl::Status& status) { CheckFuzzed(!status.message().empty()); }

void TryManifest(absl::string_view bytes) {
  const auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return CheckError(manifest.status());
  CheckFuzzed(DecodeManifest(EncodeManifest(*manifest)).ok());
  // Its shards are not there, which the checkpoint's reader must say whatever the manifest holds.
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  WriteFuzzed(kManifestFile, bytes);
  const auto opened = Checkpoint::Open(*files, FuzzedDirectory(), Checkpoint::Verify::kIndex);
  if (!opened.ok()) CheckError(opened.status());
}

std::string Framed(absl::string_view payload) {
  return absl::StrCat("SHOALMAN", Little32(static_cast<uint32_t>(payload.size())),
                      Little32(Crc32c(payload.data(), payload.size())), payload);
}

void TrySidecar(absl::string_view bytes) {
  const auto sidecar = BlockChecksums::Decode(bytes);
  if (!sidecar.ok()) return CheckError(sidecar.status());
  CheckFuzzed(sidecar->Encode() == bytes);
}

void TryHeader(absl::string_view json) {
  const auto header = DecodeSafetensorsHeader(json, uint64_t{64});
  if (!header.ok()) CheckError(header.status());
}

void TryState(absl::string_view text) {
  const auto state = DecodeSliceState(text);
  if (state.ok()) CheckFuzzed(DecodeSliceState(EncodeSliceState(*state)).ok());
  const auto name = DecodeSliceName(text);
  if (name.ok()) CheckFuzzed(EncodeSliceName(*name) == text);
}

// Writes a shard with these bytes, and a correct sidecar with correct checksums.
void TryShard(absl::string_view bytes) {
  v1::ShardFile shard;
  shard.set_name("shard-0.safetensors");
  shard.set_sidecar("shard-0.crc");
  shard.set_bytes(bytes.size());
  shard.set_crc32c(Crc32c(bytes.data(), bytes.size()));
  BlockChecksums checksums;
  checksums.Append(bytes);
  const std::string sidecar = checksums.Encode();
  shard.set_sidecar_crc32c(Crc32c(sidecar.data(), sidecar.size()));
  WriteFuzzed(shard.name(), bytes);
  WriteFuzzed(shard.sidecar(), sidecar);
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const auto reader = ShardReader::Open(*files, FuzzedDirectory(), shard);
  if (!reader.ok()) return CheckError(reader.status());
  std::vector<float> numbers;
  for (const auto& [name, entry] : (*reader)->entries()) {
    CheckFuzzed(entry.num_elements <= bytes.size());
    numbers.resize(entry.num_elements);
    CheckFuzzed((*reader)->Read(entry, 0, absl::MakeSpan(numbers)).ok());
  }
}

// Makes a shard whose header is this JSON.
std::string ShardOf(absl::string_view json) {
  std::string length(8, '\0');
  const uint64_t bytes = json.size();
  std::memcpy(length.data(), &bytes, 8);
  return absl::StrCat(length, json, std::string(64, '\1'));
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  switch (shoal::TakeChoice(&input, 8)) {
    case 0:
      shoal::TryManifest(input);
      break;
    case 1:
      shoal::TryManifest(shoal::Framed(input));
      break;
    case 2:
      shoal::TrySidecar(input);
      break;
    case 3:
      shoal::TrySidecar(
          absl::StrCat(input, shoal::Little32(shoal::Crc32c(input.data(), input.size()))));
      break;
    case 4:
      shoal::TryHeader(input);
      break;
    case 5:
      shoal::TryState(input);
      break;
    case 6:
      shoal::TryShard(input);
      break;
    default:
      shoal::TryShard(shoal::ShardOf(input));
  }
  return 0;
}
