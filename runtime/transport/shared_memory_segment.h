// The memory that a client and a server on one host share: slots, each with room for one call.
//
// The client makes it (an anonymous file that cannot shrink, so that no access can fault) and
// passes it to the server. Each side checks data from the other before it uses them. Both sides
// belong to the same user: see shared_memory_bulk_server.h.
#ifndef SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_H_
#define SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/unique_fd.h"

namespace shoal {

// The client's first message on the socket. The descriptor of the shared file is attached to it.
struct SegmentShape {
  uint32_t magic = kMagic;
  uint32_t num_slots = 0;
  uint64_t max_payload_bytes = 0;

  static constexpr uint32_t kMagic = 0x314d4853;  // "SHM1"
};

// Slots that were never used take no memory. Thread-compatible; a slot belongs to one side at a
// time.
class SharedMemorySegment {
 public:
  // Makes a segment; the other side maps `fd`.
  static absl::StatusOr<std::unique_ptr<SharedMemorySegment>> Create(const SegmentShape& shape,
                                                                     UniqueFd* fd);
  // Maps the other side's segment. Returns INVALID_ARGUMENT unless size and seals are right.
  static absl::StatusOr<std::unique_ptr<SharedMemorySegment>> Map(const SegmentShape& shape,
                                                                  const UniqueFd& fd);
  ~SharedMemorySegment();
  SharedMemorySegment(const SharedMemorySegment&) = delete;
  SharedMemorySegment& operator=(const SharedMemorySegment&) = delete;

  const SegmentShape& shape() const { return shape_; }

  // The request or the reply in a slot.
  struct Message {
    uint64_t payload_bytes;
    uint32_t header_bytes;
    uint32_t status_code;  // Replies: if not 0, the header contains the error's text.
  };
  enum class Half { kRequest, kReply };

  Message* message(uint32_t slot, Half half) const;
  char* header(uint32_t slot, Half half) const;
  char* payload(uint32_t slot, Half half) const;

 private:
  SharedMemorySegment(const SegmentShape& shape, char* memory) : shape_(shape), memory_(memory) {}
  char* GetHalf(uint32_t slot, Half half) const;

  const SegmentShape shape_;
  char* const memory_;
};

// Returns the abstract socket name of the server beside this TCP address, such as 127.0.0.1:7000;
// "localhost" means 127.0.0.1. Several servers may have one port at different addresses.
std::string SharedMemorySocketName(absl::string_view address);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_H_
