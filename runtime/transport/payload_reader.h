// Reads the payload of a received message in order. The bytes are in fragments whose borders may be
// inside elements. Not thread-safe; the fragments must outlive the reader.
#ifndef SHOAL_RUNTIME_TRANSPORT_PAYLOAD_READER_H_
#define SHOAL_RUNTIME_TRANSPORT_PAYLOAD_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal {

class PayloadReader {
 public:
  struct Fragment {
    const char* data;
    size_t bytes;
  };

  PayloadReader() = default;

  // Clears the reader and keeps its memory.
  void Reset();
  // Appends a fragment.
  void Append(const void* data, size_t bytes);

  size_t remaining() const { return remaining_; }

  // Skips the next `bytes`. Returns false, and skips nothing, if there are fewer.
  bool Skip(size_t bytes);

  // Copies the next `bytes` to `to`, and extends *crc32c (unless null) over them. Returns false,
  // and reads nothing, if there are fewer.
  bool Copy(void* to, size_t bytes, uint32_t* crc32c);

  // Returns the next `bytes` without a copy. Returns null, and reads nothing, if there are fewer or
  // they span several fragments.
  const char* Borrow(size_t bytes);

 private:
  std::vector<Fragment> fragments_;
  size_t index_ = 0;   // The fragment to read next.
  size_t offset_ = 0;  // The offset in that fragment.
  size_t remaining_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_PAYLOAD_READER_H_
