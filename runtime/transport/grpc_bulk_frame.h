// A bulk message as a gRPC byte buffer: u32 header length, u32 CRC-32C of that length and the
// header (both little-endian), header, payloads. See proto/v1/bulk.proto. For the .cc files of the
// gRPC implementation only, because it includes gRPC's headers.
#ifndef SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_FRAME_H_
#define SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_FRAME_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "runtime/transport/bulk.h"

namespace shoal {

// The only method of the bulk path.
inline constexpr char kBulkMethod[] = "/shoal.v1.BulkService/Exchange";

// Makes the frame. Payloads above a few hundred bytes are sent without a copy; each `release` is
// called exactly once.
grpc::ByteBuffer MakeFrame(absl::string_view header, absl::Span<const PayloadRef> payloads);

// A received message. The object keeps its memory from one message to the next.
class ReceivedFrame {
 public:
  // Takes over the bytes of `buffer`. Returns DATA_LOSS if they are not a frame or its header is
  // damaged.
  absl::Status Parse(grpc::ByteBuffer* buffer);
  // Frees the bytes.
  void Clear();

  absl::string_view header() const { return header_; }
  PayloadReader* payload() { return &payload_; }

 private:
  // Declared first, so that it outlives the slices: gRPC prepares its own state (ExecCtx) when a
  // buffer is destroyed, but not when a slice is, and dropping the last reference to bytes of a
  // full memory quota wakes gRPC's reclaimer.
  grpc::ByteBuffer buffer_;
  std::vector<grpc::Slice> slices_;
  PayloadReader payload_;
  std::string copied_header_;  // used if the header spans several slices
  absl::string_view header_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_FRAME_H_
