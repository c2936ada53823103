#include "runtime/transport/shared_memory_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "runtime/transport/bulk.h"

namespace shoal {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint32_t kMaxSlots = 4096;
constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 30;

size_t RoundUpToPage(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// A page for the lengths, the header's, the payload's.
size_t HalfBytes(const SegmentShape& shape) {
  return kPageBytes + kMaxBulkHeaderBytes + RoundUpToPage(shape.max_payload_bytes);
}
size_t SegmentBytes(const SegmentShape& shape) { return shape.num_slots * 2 * HalfBytes(shape); }

absl::Status SystemError(const char* call) {
  return absl::UnavailableError(absl::StrCat("shared memory: ", call, ": ", std::strerror(errno)));
}

absl::StatusOr<char*> MapWhole(const SegmentShape& shape, int fd) {
  void* memory =
      mmap(nullptr, SegmentBytes(shape), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return SystemError("mmap");
  return static_cast<char*>(memory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemorySegment>> SharedMemorySegment::Create(
    const SegmentShape& shape, UniqueFd* fd) {
  fd->Reset(memfd_create("shoal-bulk", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd->is_valid()) return SystemError("memfd_create");
  if (ftruncate(fd->get(), static_cast<off_t>(SegmentBytes(shape))) != 0) {
    return SystemError("ftruncate");
  }
  if (fcntl(fd->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("fcntl");
  }
  absl::StatusOr<char*> memory = MapWhole(shape, fd->get());
  if (!memory.ok()) return memory.status();
  return absl::WrapUnique(new SharedMemorySegment(shape, *memory));
}

absl::StatusOr<std::unique_ptr<SharedMemorySegment>> SharedMemorySegment::Map(
    const SegmentShape& shape, const UniqueFd& fd) {
  if (shape.magic != SegmentShape::kMagic || shape.num_slots == 0 || shape.num_slots > kMaxSlots ||
      shape.max_payload_bytes > kMaxPayloadBytes) {
    return absl::InvalidArgumentError("shared memory: malformed greeting");
  }
  struct stat info;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (fstat(fd.get(), &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      info.st_size != static_cast<off_t>(SegmentBytes(shape))) {
    return absl::InvalidArgumentError("shared memory: the file is not a sealed segment");
  }
  absl::StatusOr<char*> memory = MapWhole(shape, fd.get());
  if (!memory.ok()) return memory.status();
  return absl::WrapUnique(new SharedMemorySegment(shape, *memory));
}

SharedMemorySegment::~SharedMemorySegment() { munmap(memory_, SegmentBytes(shape_)); }

char* SharedMemorySegment::GetHalf(uint32_t slot, Half half) const {
  return memory_ + (2 * slot + (half == Half::kReply ? 1 : 0)) * HalfBytes(shape_);
}

SharedMemorySegment::Message* SharedMemorySegment::message(uint32_t slot, Half half) const {
  return reinterpret_cast<Message*>(GetHalf(slot, half));
}

char* SharedMemorySegment::header(uint32_t slot, Half half) const {
  return GetHalf(slot, half) + kPageBytes;
}

char* SharedMemorySegment::payload(uint32_t slot, Half half) const {
  return header(slot, half) + kMaxBulkHeaderBytes;
}

std::string SharedMemorySocketName(absl::string_view address) {
  constexpr absl::string_view kLocalhost = "localhost:";
  if (absl::ConsumePrefix(&address, kLocalhost)) {
    return absl::StrCat("shoal-bulk-127.0.0.1:", address);
  }
  return absl::StrCat("shoal-bulk-", address);
}

}  // namespace shoal
