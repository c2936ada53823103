// Tests the server, the channels and the control clients together, over real connections.
#include "runtime/rpc/grpc_server.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"

#include "proto/v1/chief_service.grpc.pb.h"
#include "proto/v1/parameter_service.grpc.pb.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/grpc_parameter_service.h"
#include "runtime/rpc/health_client.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/grpc_bulk_channel.h"
#include "runtime/transport/grpc_bulk_server.h"

namespace shoal {
namespace {

class ChiefServer {
 public:
  ChiefServer() : service_(&chief) {
    GrpcServer::Options options;
    options.services = {&service_};
    options.health_service = "chief";
    server = std::move(GrpcServer::Create(options).value());
  }
  std::unique_ptr<PeerChannel> NewChannel(size_t max_bytes = kMaxControlMessageBytes) {
    return NewGrpcChannel(server->address(), ChannelUse::kControl, max_bytes);
  }

  FakeChief chief;

 private:
  GrpcChiefService<FakeChief> service_;

 public:
  std::unique_ptr<GrpcServer> server;
};

TEST(GrpcServerTest, CallsAndErrorsPassThrough) {
  ChiefServer chief;
  EXPECT_GT(chief.server->port(), 0);
  ChiefClient client(NewGrpcControlChannel(chief.NewChannel()));
  v1::RegisterTaskRequest request;
  request.set_nonce("a");
  v1::RegisterTaskResponse response;
  ASSERT_TRUE(client.Call(&v1::ChiefService::Service::RegisterTask, request, &response).ok());
  EXPECT_EQ(response.incarnation(), 1u);
  chief.chief.SetFailure(absl::AbortedError("fenced incarnation: 1"));
  v1::HeartbeatResponse state;
  EXPECT_EQ(client.Call(&v1::ChiefService::Service::Heartbeat, v1::HeartbeatRequest(), &state),
            absl::AbortedError("fenced incarnation: 1"));
}

TEST(GrpcServerTest, ARegistrationWhoseCallerHangsUpIsDisconnected) {
  ChiefServer chief;
  chief.chief.places_are_taken = true;
  ChiefClient client(NewGrpcControlChannel(chief.NewChannel()));
  std::thread caller([&client] {
    v1::RegisterTaskResponse response;
    EXPECT_FALSE(
        client.Call(&v1::ChiefService::Service::RegisterTask, v1::RegisterTaskRequest(), &response)
            .ok());
  });
  chief.chief.WaitUntil([&chief] { return chief.chief.waiting_registrations == 1; });
  client.Close();
  caller.join();
  chief.chief.WaitUntil([&chief] { return chief.chief.disconnects == 1; });
}

TEST(GrpcServerTest, HealthDistinguishesTheProcessFromTheRole) {
  ChiefServer chief;
  const auto check = [&chief](const char* service) {
    return CheckHealth(chief.NewChannel()->channel(), service, absl::Seconds(5)).code();
  };
  EXPECT_EQ(check(""), absl::StatusCode::kOk);
  EXPECT_EQ(check("chief"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(check("ps"), absl::StatusCode::kNotFound);
  chief.server->SetServing(true);
  EXPECT_EQ(check("chief"), absl::StatusCode::kOk);
  chief.server->SetServing(false);
  EXPECT_EQ(check("chief"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(check(""), absl::StatusCode::kOk);
}

TEST(GrpcServerTest, AServerOfHealthAlone) {
  GrpcServer::Options options;
  options.health_service = "worker";
  const auto server = std::move(GrpcServer::Create(options).value());
  const auto dial = [&server] {
    return NewGrpcChannel(server->address(), ChannelUse::kControl, kMaxControlMessageBytes);
  };
  const auto check = [&](const char* service) {
    return CheckHealth(dial()->channel(), service, absl::Seconds(5)).code();
  };
  EXPECT_EQ(check(""), absl::StatusCode::kOk);
  EXPECT_EQ(check("worker"), absl::StatusCode::kUnavailable);
  server->SetServing(true);
  EXPECT_EQ(check("worker"), absl::StatusCode::kOk);
  EXPECT_EQ(check("ps"), absl::StatusCode::kNotFound);
  ChiefClient client(NewGrpcControlChannel(dial()));
  v1::GetRunStatusResponse response;
  EXPECT_EQ(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response)
          .code(),
      absl::StatusCode::kUnavailable);
}

TEST(GrpcServerTest, ASecondServerOnThePortIsRefused) {
  ChiefServer chief;
  GrpcChiefService<FakeChief> service(&chief.chief);
  GrpcServer::Options options;
  options.services = {&service};
  options.address = chief.server->address();
  EXPECT_EQ(GrpcServer::Create(options).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GrpcServerTest, OtherMachinesAreShutOutUnlessAllowed) {
  FakeChief chief;
  GrpcChiefService<FakeChief> service(&chief);
  GrpcServer::Options options;
  options.services = {&service};
  options.address = "0.0.0.0:0";
  EXPECT_EQ(GrpcServer::Create(options).status().code(), absl::StatusCode::kPermissionDenied);
  options.insecure = true;
  EXPECT_TRUE(GrpcServer::Create(options).ok());
}

TEST(GrpcServerTest, AMessageAboveTheLimitIsRefusedAndTheServerLives) {
  ChiefServer chief;
  ChiefClient careless(NewGrpcControlChannel(chief.NewChannel(64 << 20)));
  v1::RegisterTaskRequest request;
  request.set_address(std::string(kMaxControlMessageBytes, 'x'));
  v1::RegisterTaskResponse response;
  EXPECT_EQ(careless.Call(&v1::ChiefService::Service::RegisterTask, request, &response).code(),
            absl::StatusCode::kResourceExhausted);
  request.set_address("short");
  EXPECT_TRUE(careless.Call(&v1::ChiefService::Service::RegisterTask, request, &response).ok());
}

TEST(GrpcServerTest, AnAbsentServerIsUnavailableAtOnce) {
  ChiefClient client(NewGrpcControlChannel(
      NewGrpcChannel("127.0.0.1:1", ChannelUse::kControl, kMaxControlMessageBytes)));
  v1::GetRunStatusResponse response;
  EXPECT_EQ(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response)
          .code(),
      absl::StatusCode::kUnavailable);
}

TEST(GrpcServerTest, AClientLooksForItsPeerAnewWhenItCannotConnect) {
  ChiefServer chief;
  const auto nowhere =
      grpc::CreateChannel("unix:/nonexistent/chief", grpc::InsecureChannelCredentials());
  const auto there = chief.NewChannel();
  bool known = false;
  ChiefClient client(NewGrpcControlChannel(std::make_unique<PeerChannel>(
      [&] { return known ? there->channel() : nowhere; }, absl::ZeroDuration())));
  v1::GetRunStatusResponse response;
  EXPECT_EQ(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response)
          .code(),
      absl::StatusCode::kUnavailable);
  known = true;
  EXPECT_EQ(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response),
      absl::OkStatus());
}

TEST(GrpcServerTest, ClosingAClientEndsItsCalls) {
  ChiefServer chief;
  ChiefClient client(NewGrpcControlChannel(chief.NewChannel()));
  std::thread waits([&] {
    v1::HeartbeatRequest request;
    request.set_wait_milliseconds(2000);
    v1::HeartbeatResponse response;
    EXPECT_EQ(client.Call(&v1::ChiefService::Service::Heartbeat, request, &response).code(),
              absl::StatusCode::kCancelled);
  });
  chief.chief.WaitUntil([&] { return chief.chief.last_heartbeat.wait_milliseconds() == 2000; });
  client.Close();
  waits.join();
  // The chief is notified that the caller is gone.
  chief.chief.WaitUntil([&] { return chief.chief.disconnects == 1; });
  v1::GetRunStatusResponse response;
  EXPECT_EQ(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response)
          .code(),
      absl::StatusCode::kCancelled);
}

TEST(GrpcServerTest, ATaskThatCallsAgainOnAnotherConnectionIsNotDisconnected) {
  ChiefServer chief;
  ChiefClient client(NewGrpcControlChannel(chief.NewChannel())),
      again(NewGrpcControlChannel(chief.NewChannel()));
  v1::HeartbeatRequest request;
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_PS);
  request.mutable_identity()->set_incarnation(1);
  const auto beat = [&](ChiefClient& by, int64_t wait) {
    request.set_wait_milliseconds(wait);
    return std::thread([&by, sent = request] {
      v1::HeartbeatResponse response;
      EXPECT_EQ(by.Call(&v1::ChiefService::Service::Heartbeat, sent, &response).code(),
                absl::StatusCode::kCancelled);
    });
  };
  std::thread first = beat(client, 300);
  chief.chief.WaitUntil([&] { return chief.chief.last_heartbeat.wait_milliseconds() == 300; });
  std::thread second = beat(again, 400);
  chief.chief.WaitUntil([&] { return chief.chief.last_heartbeat.wait_milliseconds() == 400; });
  client.Close();
  first.join();
  again.Close();
  second.join();
  chief.server.reset();  // Waits for both calls' ends. That of the second one counts.
  EXPECT_EQ(chief.chief.disconnects, 1);
}

// Holds calls until `release` is notified.
class StuckParameters {
 public:
  absl::Status LoadSlices(const v1::LoadSlicesRequest&, v1::LoadSlicesResponse*) {
    ++loads;
    return absl::DataLossError("shard-1.safetensors: checksum");
  }
  absl::Status WithholdBatch(const v1::WithholdBatchRequest&, v1::WithholdBatchResponse* response) {
    response->set_none_has(true);
    return absl::OkStatus();
  }
  absl::Status DecideBatch(const v1::DecideBatchRequest&, v1::DecideBatchResponse*) {
    return absl::OkStatus();
  }
  absl::Status RequestCut(const v1::RequestCutRequest& request, v1::RequestCutResponse* response) {
    response->set_newest_version(request.version() + 1);
    return absl::OkStatus();
  }
  absl::Status GetApplied(const v1::GetAppliedRequest&, v1::GetAppliedResponse*) {
    return absl::OkStatus();
  }
  absl::Status Finish(const v1::FinishRequest&, v1::FinishResponse*) {
    entered.Notify();
    release.Wait();
    return absl::OkStatus();
  }

  std::atomic<int> loads = 0;
  Notification entered;
  Notification release;
};

TEST(GrpcServerTest, ABulkServersControlMessagesStaySmall) {
  StuckParameters parameters;
  GrpcParameterService<StuckParameters> service(&parameters);
  GrpcServer::Options options;
  options.services = {&service};
  options.max_message_bytes = 4 << 20;
  const auto server = std::move(GrpcServer::Create(options).value());
  ParameterClient client(
      NewGrpcControlChannel(NewGrpcChannel(server->address(), ChannelUse::kControl, 64 << 20)));
  v1::LoadSlicesRequest request;
  v1::LoadSlicesResponse response;
  request.set_token(std::string(kMaxControlMessageBytes, 'x'));
  const absl::Status refused =
      client.Call(&v1::ParameterService::Service::LoadSlices, request, &response);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("shoal.v1.LoadSlicesRequest of"));
  EXPECT_EQ(parameters.loads, 0);
  request.set_token("short");
  EXPECT_EQ(client.Call(&v1::ParameterService::Service::LoadSlices, request, &response).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(parameters.loads, 1);
}

TEST(GrpcServerTest, ParameterCallsPassThrough) {
  StuckParameters parameters;
  GrpcParameterService<StuckParameters> service(&parameters);
  GrpcServer::Options options;
  options.services = {&service};
  const auto server = std::move(GrpcServer::Create(options).value());
  ParameterClient client(NewGrpcControlChannel(
      NewGrpcChannel(server->address(), ChannelUse::kControl, kMaxControlMessageBytes)));
  v1::LoadSlicesResponse loaded;
  EXPECT_EQ(
      client.Call(&v1::ParameterService::Service::LoadSlices, v1::LoadSlicesRequest(), &loaded),
      absl::DataLossError("shard-1.safetensors: checksum"));
  v1::WithholdBatchResponse withheld;
  ASSERT_TRUE(client
                  .Call(&v1::ParameterService::Service::WithholdBatch, v1::WithholdBatchRequest(),
                        &withheld)
                  .ok());
  EXPECT_TRUE(withheld.none_has());
  v1::DecideBatchResponse decided;
  EXPECT_TRUE(
      client.Call(&v1::ParameterService::Service::DecideBatch, v1::DecideBatchRequest(), &decided)
          .ok());
  v1::RequestCutRequest cut;
  cut.set_version(6);
  v1::RequestCutResponse cut_at;
  ASSERT_TRUE(client.Call(&v1::ParameterService::Service::RequestCut, cut, &cut_at).ok());
  EXPECT_EQ(cut_at.newest_version(), 7u);
  v1::GetAppliedResponse applied;
  EXPECT_TRUE(
      client.Call(&v1::ParameterService::Service::GetApplied, v1::GetAppliedRequest(), &applied)
          .ok());
}

TEST(GrpcServerTest, StopReportsACallThatDoesNotReturn) {
  // The server's shutdown continues in the background, and gRPC does not report its end, so
  // the service lives as long as the process.
  static StuckParameters& parameters = *new StuckParameters;
  static auto& service = *new GrpcParameterService<StuckParameters>(&parameters);
  GrpcServer::Options options;
  options.services = {&service};
  auto server = std::move(GrpcServer::Create(options).value());
  ParameterClient client(NewGrpcControlChannel(
      NewGrpcChannel(server->address(), ChannelUse::kControl, kMaxControlMessageBytes)));
  std::thread waits([&] {
    v1::FinishResponse response;
    EXPECT_FALSE(
        client.Call(&v1::ParameterService::Service::Finish, v1::FinishRequest(), &response).ok());
  });
  parameters.entered.Wait();
  EXPECT_EQ(server->Stop(absl::Milliseconds(20), absl::Milliseconds(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
  waits.join();
  parameters.release.Notify();
}

TEST(GrpcServerTest, BulkAndControlShareAPort) {
  FakeChief chief;
  GrpcChiefService<FakeChief> service(&chief);
  BulkTestService bulk_service;
  GrpcBulkServer bulk(&bulk_service, {});
  GrpcServer::Options options;
  options.services = {&service};
  options.bulk = &bulk;
  options.max_message_bytes = 5 << 20;
  const auto server = std::move(GrpcServer::Create(options).value());
  GrpcBulkClient bulk_client;
  const auto channel =
      bulk_client.NewChannel(NewGrpcChannel(server->address(), ChannelUse::kBulk, 5 << 20));
  const std::string payload(4 << 20, 'p');
  BulkTestCall call;
  call.header = "echo";
  call.payloads = {{payload.data(), payload.size(), nullptr, nullptr}};
  channel->Start(&call);
  ChiefClient client(NewGrpcControlChannel(
      NewGrpcChannel(server->address(), ChannelUse::kControl, kMaxControlMessageBytes)));
  v1::GetRunStatusResponse status;
  EXPECT_TRUE(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &status)
          .ok());
  call.Wait();
  EXPECT_TRUE(call.received == payload);

  const std::string large(6 << 20, 'p');
  call.payloads = {{large.data(), large.size(), nullptr, nullptr}};
  channel->Start(&call);
  call.Wait(2);
  EXPECT_EQ(call.status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace shoal
