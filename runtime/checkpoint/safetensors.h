// The safetensors container: 8 bytes little-endian header length, a JSON header, then the tensors'
// bytes. https://github.com/huggingface/safetensors
#ifndef SHOAL_RUNTIME_CHECKPOINT_SAFETENSORS_H_
#define SHOAL_RUNTIME_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

class ReadableFile;

// The most bytes of a header's JSON that readers accept, as in the reference implementation.
inline constexpr uint64_t kMostSafetensorsHeaderBytes = 100000000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype = "F32";    // in the format's notation
  std::vector<uint64_t> shape;  // empty: a scalar
  uint64_t begin = 0;           // counted in bytes after the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // ordered by their bytes
  std::map<std::string, std::string> metadata;
};

// Returns the bytes of an element; 0 for an unknown type or one smaller than a byte.
uint64_t SafetensorsElementBytes(absl::string_view dtype);

// Returns the start of a file, including the length, padded so that the tensors begin at a multiple
// of 64 bytes. The entries must follow each other without gaps.
std::string EncodeSafetensorsHeader(const SafetensorsHeader& header);

// Decodes the header's JSON for a file with `data_bytes` bytes after it. DataLoss names the defect:
// bad JSON, repeated or unknown keys, gaps, overlaps, a size that does not match the shape, bytes
// after the last tensor.
absl::StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(absl::string_view json,
                                                          uint64_t data_bytes);

// Reads and checks a file's header, and sets `*data_begin` to the offset of the tensors. Errors
// name `path`.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const ReadableFile& file,
                                                        absl::string_view path,
                                                        uint64_t* data_begin);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SAFETENSORS_H_
