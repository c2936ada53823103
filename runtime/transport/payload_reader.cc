#include "runtime/transport/payload_reader.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace shoal {

void PayloadReader::Reset() {
  fragments_.clear();
  index_ = offset_ = remaining_ = 0;
}

void PayloadReader::Append(const void* data, size_t bytes) {
  if (bytes == 0) return;
  fragments_.push_back({static_cast<const char*>(data), bytes});
  remaining_ += bytes;
}

bool PayloadReader::Skip(size_t bytes) {
  if (bytes > remaining_) return false;
  remaining_ -= bytes;
  while (bytes > 0) {
    const size_t part = std::min(bytes, fragments_[index_].bytes - offset_);
    bytes -= part;
    offset_ += part;
    if (offset_ == fragments_[index_].bytes) ++index_, offset_ = 0;
  }
  return true;
}

bool PayloadReader::Copy(void* to, size_t bytes, uint32_t* crc32c) {
  if (bytes > remaining_) return false;
  char* out = static_cast<char*>(to);
  remaining_ -= bytes;
  while (bytes > 0) {
    const Fragment& fragment = fragments_[index_];
    const size_t part = std::min(bytes, fragment.bytes - offset_);
    std::memcpy(out, fragment.data + offset_, part);
    // The copy is in the cache now, so that the checksum costs no second trip to memory.
    if (crc32c != nullptr) *crc32c = ExtendCrc32c(*crc32c, out, part);
    out += part;
    bytes -= part;
    offset_ += part;
    if (offset_ == fragment.bytes) ++index_, offset_ = 0;
  }
  return true;
}

const char* PayloadReader::Borrow(size_t bytes) {
  if (bytes > remaining_ || bytes == 0) return nullptr;
  const Fragment& fragment = fragments_[index_];
  if (fragment.bytes - offset_ < bytes) return nullptr;
  const char* data = fragment.data + offset_;
  Skip(bytes);
  return data;
}

}  // namespace shoal
