#include "runtime/transport/grpc_bulk_frame.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"

namespace shoal {
namespace {

// Before the header: its length, and the checksum of both.
constexpr size_t kNumberBytes = sizeof(uint32_t);
constexpr size_t kPrefixBytes = 2 * kNumberBytes;
// Payloads below this size are copied, because that is cheaper than tracking the readers of the
// memory.
constexpr size_t kCopyBelowBytes = 256;

grpc::Slice ToSlice(const PayloadRef& payload) {
  if (payload.bytes < kCopyBelowBytes) {
    grpc::Slice copy(payload.data, payload.bytes);
    if (payload.release != nullptr) payload.release(payload.owner);
    return copy;
  }
  if (payload.release == nullptr) {
    return grpc::Slice(payload.data, payload.bytes, grpc::Slice::STATIC_SLICE);
  }
  return grpc::Slice(const_cast<void*>(payload.data), payload.bytes, payload.release,
                     payload.owner);
}

uint32_t LoadNumber(const char* bytes) {
  const auto* b = reinterpret_cast<const unsigned char*>(bytes);
  return uint32_t{b[0]} | uint32_t{b[1]} << 8 | uint32_t{b[2]} << 16 | uint32_t{b[3]} << 24;
}

void StoreNumber(uint32_t number, char* bytes) {
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> (8 * i));
}

uint32_t ComputeChecksum(const char* length, absl::string_view header) {
  return ExtendCrc32c(Crc32c(length, kNumberBytes), header.data(), header.size());
}

}  // namespace

grpc::ByteBuffer MakeFrame(absl::string_view header, absl::Span<const PayloadRef> payloads) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + payloads.size());
  grpc::Slice first(kPrefixBytes + header.size());
  char* begin = reinterpret_cast<char*>(const_cast<uint8_t*>(first.begin()));
  StoreNumber(static_cast<uint32_t>(header.size()), begin);
  StoreNumber(ComputeChecksum(begin, header), begin + kNumberBytes);
  std::memcpy(begin + kPrefixBytes, header.data(), header.size());
  slices.push_back(std::move(first));
  for (const PayloadRef& payload : payloads) slices.push_back(ToSlice(payload));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status ReceivedFrame::Parse(grpc::ByteBuffer* buffer) {
  Clear();
  buffer_.Swap(buffer);
  if (!buffer_.Valid() || !buffer_.Dump(&slices_).ok()) {
    return absl::DataLossError("bulk message: unreadable bytes");
  }
  for (const grpc::Slice& slice : slices_) payload_.Append(slice.begin(), slice.size());
  char prefix[kPrefixBytes];
  if (!payload_.Copy(prefix, kPrefixBytes, nullptr)) {
    return absl::DataLossError(
        absl::StrCat("bulk message: ", buffer_.Length(), " bytes are too few"));
  }
  const size_t length = LoadNumber(prefix);
  if (length > kMaxBulkHeaderBytes || length > payload_.remaining()) {
    return absl::DataLossError(absl::StrCat("bulk message: header length ", length, " is above ",
                                            kMaxBulkHeaderBytes, " or the message's end"));
  }
  const char* in_place = payload_.Borrow(length);
  if (in_place == nullptr) {
    copied_header_.resize(length);
    payload_.Copy(copied_header_.data(), length, nullptr);
    in_place = copied_header_.data();
  }
  if (LoadNumber(prefix + kNumberBytes) != ComputeChecksum(prefix, {in_place, length})) {
    return absl::DataLossError("bulk message: the header arrived damaged");
  }
  header_ = absl::string_view(in_place, length);
  return absl::OkStatus();
}

void ReceivedFrame::Clear() {
  header_ = {};
  payload_.Reset();
  slices_.clear();
  buffer_.Clear();
}

}  // namespace shoal
