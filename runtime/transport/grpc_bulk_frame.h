// A bulk message as a gRPC byte buffer: u32 header length, u32 CRC-32C of that length and the
// header (little endian both), header, payloads. See proto/v1/bulk.proto. For the .cc files of the
// gRPC form only: it pulls in gRPC's headers.
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

// The one method of the bulk path.
inline constexpr char kBulkMethod[] = "/shoal.v1.BulkService/Exchange";

// Payloads above a few hundred bytes are sent from where they are; each `release` is called exactly
// once.
grpc::ByteBuffer MakeFrame(absl::string_view header, absl::Span<const PayloadRef> payloads);

// A received message. Keeps its memory from one message to the next.
class ReceivedFrame {
 public:
  // Takes the bytes of `buffer`. DATA_LOSS if it is not a frame or its header is damaged.
  absl::Status Parse(grpc::ByteBuffer* buffer);
  // Frees the bytes.
  void Clear();

  absl::string_view header() const { return header_; }
  PayloadReader* payload() { return &payload_; }

 private:
  // Outlives the slices: gRPC prepares its own state (ExecCtx) when a buffer goes, but not when a
  // slice goes, and the last reference to bytes of a full memory quota wakes gRPC's reclaimer.
  grpc::ByteBuffer buffer_;
  std::vector<grpc::Slice> slices_;
  PayloadReader payload_;
  std::string copied_header_;  // Used when the header does not lie in one slice.
  absl::string_view header_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_FRAME_H_
