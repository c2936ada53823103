// Tests a server whose memory for messages is full: calls fail and are repeated, and no task ends.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/notification.h"
#include "runtime/transport/bulk.h"
#include "runtime/transport/grpc_bulk_channel.h"
#include "runtime/transport/grpc_bulk_server.h"
#include "runtime/transport/peer_channel.h"

namespace shoal {
namespace {

constexpr size_t kMessageBytes = 4 << 20;
constexpr size_t kQuotaBytes = 8 << 20;
constexpr int kClients = 8;
constexpr int kCallsOfAClient = 2;
constexpr int kRounds = 2;
constexpr absl::Duration kPatience = absl::Minutes(2);

// A service that answers with the number of bytes that it received.
class CountingService : public BulkService {
 public:
  void Exchange(ServedCall* call) override {
    call->reply_header = std::to_string(call->payload()->remaining());
    call->Reply(absl::OkStatus());
  }
};

// gRPC's error for a full quota, RESOURCE_EXHAUSTED, is not an error of the service, so the call is
// repeated.
bool IsOutcomeUnknown(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

// Sends one message again and again until it was taken `kRounds` times.
class Sender {
 public:
  Sender(BulkChannel* channel, const std::string& payload) : channel_(channel) {
    call_.payloads = {{payload.data(), payload.size(), nullptr, nullptr}};
    call_.timeout = absl::Seconds(5);
  }

  // The status of the call that ended it, unless all rounds were taken before `deadline`.
  absl::Status Run(absl::Time deadline) {
    for (int taken = 0; taken < kRounds;) {
      Notification ended;
      call_.ended = &ended;
      channel_->Start(&call_);
      ended.Wait();
      if (call_.status.ok()) {
        EXPECT_EQ(call_.received, std::to_string(kMessageBytes));
        ++taken;
      } else if (!IsOutcomeUnknown(call_.status) || absl::Now() > deadline) {
        return call_.status;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Call : BulkCall {
    void OnReply(const absl::Status& reply_status, absl::string_view reply_header,
                 PayloadReader*) override {
      status = reply_status;
      received = std::string(reply_header);
      ended->Notify();
    }
    absl::Status status;
    std::string received;
    Notification* ended = nullptr;
  };

  BulkChannel* const channel_;
  Call call_;
};

TEST(MemoryQuotaTest, AFullQuotaEndsCallsAndNotTheServer) {
  CountingService service;
  GrpcBulkServer bulk(&service, {});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMessageBytes + kMaxBulkHeaderBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("test").Resize(kQuotaBytes));
  bulk.AddTo(&builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  bulk.Start();
  const std::string payload(kMessageBytes, 'p');
  std::vector<std::unique_ptr<GrpcBulkClient>> clients;
  std::vector<std::unique_ptr<BulkChannel>> channels;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<GrpcBulkClient>());
    channels.push_back(clients.back()->NewChannel(std::make_unique<PeerChannel>([port] {
      grpc::ChannelArguments own_connection;
      own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                       grpc::InsecureChannelCredentials(), own_connection);
    })));
  }
  const absl::Time deadline = absl::Now() + kPatience;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients * kCallsOfAClient; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ(Sender(channels[i % kClients].get(), payload).Run(deadline), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  channels.clear();
  server->Shutdown();
  bulk.Stop();
}

}  // namespace
}  // namespace shoal
