#include "runtime/transport/status_conversion.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

TEST(StatusConversionTest, CodesAndMessagesSurviveTheTrip) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "slice 3: why");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  }
}

TEST(StatusConversionTest, MessagesFromTheNetworkAreCutAndOneLine) {
  const grpc::Status hostile(grpc::StatusCode::INTERNAL,
                             std::string("a\nb") + std::string(5000, 'x'));
  const absl::Status status = FromGrpcStatus(hostile);
  EXPECT_EQ(status.message().substr(0, 5), "a?bxx");
  EXPECT_LE(status.message().size(), 1025u);
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::INTERNAL, "the chief's \"x\"")).message(),
            "the chief's \"x\"");
}

TEST(StatusConversionTest, UnknownCodesAreErrors) {
  EXPECT_EQ(FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(31), "")).code(),
            absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace shoal
