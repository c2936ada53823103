// Reads the payload of a received message in order. The bytes lie in fragments that the network
// chose, whose borders ignore elements. Not thread-safe; the fragments must outlive it.
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

  // Empties the reader; keeps its memory.
  void Reset();
  // Adds a fragment behind the last one.
  void Append(const void* data, size_t bytes);

  size_t remaining() const { return remaining_; }

  // Moves past the next `bytes`. False, and nothing is read, if there are fewer.
  bool Skip(size_t bytes);

  // Copies the next `bytes` to `to`, and extends *crc32c over them unless it is null. False, and
  // nothing is read, if there are fewer.
  bool Copy(void* to, size_t bytes, uint32_t* crc32c);

  // The next `bytes` without a copy: null, and nothing is read, if they are not in one piece or
  // fewer.
  const char* Borrow(size_t bytes);

 private:
  std::vector<Fragment> fragments_;
  size_t index_ = 0;   // The fragment that is read next,
  size_t offset_ = 0;  // and where in it.
  size_t remaining_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_PAYLOAD_READER_H_
