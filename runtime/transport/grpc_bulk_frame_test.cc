#include "runtime/transport/grpc_bulk_frame.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "runtime/transport/bulk.h"

namespace shoal {
namespace {

constexpr char kHeader[] = "a header of an exchange";
constexpr size_t kHeaderBytes = sizeof(kHeader) - 1;
constexpr size_t kPrefixBytes = 8;

std::string BytesOf(grpc::ByteBuffer buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// The message in pieces of `piece` bytes.
absl::Status Parse(const std::string& bytes, size_t piece, ReceivedFrame* frame) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.data() + at, std::min(piece, bytes.size() - at));
  }
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  return frame->Parse(&buffer);
}

class GrpcBulkFrameTest : public testing::Test {
 protected:
  const std::string payload_ = std::string(300, 'p');
  const PayloadRef payloads_[1] = {{payload_.data(), payload_.size(), nullptr, nullptr}};
  const std::string bytes_ = BytesOf(MakeFrame(kHeader, payloads_));
  ReceivedFrame frame_;
};

TEST_F(GrpcBulkFrameTest, AnIntactMessageArrivesInAnyPieces) {
  for (const size_t piece : {bytes_.size(), size_t{5}, size_t{1}}) {
    ASSERT_EQ(Parse(bytes_, piece, &frame_), absl::OkStatus()) << piece;
    EXPECT_EQ(frame_.header(), kHeader);
    EXPECT_EQ(frame_.payload()->remaining(), payload_.size());
  }
}

TEST_F(GrpcBulkFrameTest, EveryFlippedBitBeforeThePayloadIsFound) {
  for (size_t bit = 0; bit < 8 * (kPrefixBytes + kHeaderBytes); ++bit) {
    std::string damaged = bytes_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(Parse(damaged, damaged.size(), &frame_))) << bit;
    EXPECT_TRUE(frame_.header().empty());
  }
}

TEST_F(GrpcBulkFrameTest, ATruncatedHeaderIsFound) {
  for (size_t length = 0; length < kPrefixBytes + kHeaderBytes; ++length) {
    EXPECT_TRUE(absl::IsDataLoss(Parse(bytes_.substr(0, length), bytes_.size(), &frame_)))
        << length;
  }
}

}  // namespace
}  // namespace shoal
