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

struct SafetensorsEntry {
  std::string name;
  std::string dtype = "F32";    // the format's names
  std::vector<uint64_t> shape;  // empty: a scalar
  uint64_t begin = 0;           // bytes, from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Bytes of an element; 0 for an unknown type or one of less than a byte.
uint64_t SafetensorsElementBytes(absl::string_view dtype);

// The start of a file, length included, padded so that the tensors begin at a multiple of 64 bytes.
// The entries must follow each other without holes.
std::string EncodeSafetensorsHeader(const SafetensorsHeader& header);

// The header's JSON, for a file with `data_bytes` bytes after it. DataLoss says what is wrong: bad
// JSON, repeated or unknown keys, holes, overlaps, a size that is not the shape's, bytes past the
// last tensor.
absl::StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(absl::string_view json,
                                                          uint64_t data_bytes);

// Reads and checks a file's header; `data_begin` is where the tensors begin. Errors name `path`.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const ReadableFile& file,
                                                        absl::string_view path,
                                                        uint64_t* data_begin);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SAFETENSORS_H_
