#include "runtime/transport/call_status.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Ends every call with one status, with or without the mark of a service.
class StatusServer : public grpc::CallbackGenericService {
 public:
  StatusServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }
  ~StatusServer() override { server_->Shutdown(); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    class Reactor : public grpc::ServerGenericBidiReactor {
     public:
      explicit Reactor(const grpc::Status& status) { Finish(status); }
      void OnDone() override { delete this; }
    };
    return new Reactor(of_service_ ? MarkAnswer(context, status_)
                                   : grpc::Status(static_cast<grpc::StatusCode>(status_.code()),
                                                  std::string(status_.message())));
  }

  absl::Status Call(const absl::Status& status, bool of_service) {
    status_ = status;
    of_service_ = of_service;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const grpc::internal::RpcMethod method("/shoal.v1.ChiefService/ReportSteps",
                                           grpc::internal::RpcMethod::NORMAL_RPC, channel_);
    const grpc::Slice nothing;
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    const grpc::Status result =
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer, grpc::ByteBuffer,
                                          grpc::ByteBuffer>(channel_.get(), method, &context,
                                                            request, &response);
    is_answered_ = IsAnswered(context, result);
    return StatusOfCall(context, result);
  }

  bool is_answered() const { return is_answered_; }

 private:
  absl::Status status_;
  bool of_service_ = false;
  bool is_answered_ = false;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST(CallStatusTest, ErrorsOfTheServiceArriveUnchanged) {
  StatusServer server;
  for (int code = 1; code <= 16; ++code) {
    const absl::Status given(static_cast<absl::StatusCode>(code), "slice 3: why");
    EXPECT_EQ(server.Call(given, /*of_service=*/true), given);
    EXPECT_TRUE(server.is_answered()) << given;
    EXPECT_EQ(CodeFromBetween(given), absl::StatusCode::kOk);
  }
}

TEST(CallStatusTest, ErrorsFromAnythingElseLeaveTheOutcomeUnknown) {
  StatusServer server;
  for (int code = 1; code <= 16; ++code) {
    const absl::Status given(static_cast<absl::StatusCode>(code), "stream reset");
    const absl::Status status = server.Call(given, /*of_service=*/false);
    EXPECT_TRUE(IsOutcomeUnknown(status)) << status;
    EXPECT_FALSE(server.is_answered()) << given;
    EXPECT_TRUE(absl::StrContains(status.message(), "stream reset")) << status;
    if (IsOutcomeUnknown(given)) continue;
    EXPECT_EQ(CodeFromBetween(status), given.code()) << status;
  }
}

TEST(CallStatusTest, AMessageThatIsTooLargeStaysSo) {
  StatusServer server;
  const absl::Status too_large =
      absl::ResourceExhaustedError("Received message larger than max (5000000 vs. 4194304)");
  const absl::Status status = server.Call(too_large, /*of_service=*/false);
  EXPECT_EQ(status, too_large);
  EXPECT_TRUE(IsTooLarge(status));
  EXPECT_FALSE(MayHeal(status));
  EXPECT_FALSE(IsTooLarge(absl::ResourceExhaustedError("no memory")));
}

TEST(CallStatusTest, ErrorsThatMayPassAreWorthAnotherTry) {
  for (const absl::Status& status :
       {absl::ResourceExhaustedError("no memory"), absl::UnknownError("I/O error"),
        absl::NotFoundError("not there yet"), absl::AbortedError("moved"),
        absl::UnavailableError("gone")}) {
    EXPECT_TRUE(MayHeal(status)) << status;
  }
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InvalidArgumentError("no such slice"),
        absl::FailedPreconditionError("another run"), absl::DataLossError("damaged"),
        absl::PermissionDeniedError("a worker"), absl::InternalError("a broken invariant")}) {
    EXPECT_FALSE(MayHeal(status)) << status;
  }
}

}  // namespace
}  // namespace shoal
