// Tests the properties that all implementations of the bulk path must have.
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"

#include "base/system_random.h"
#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/grpc_bulk_channel.h"
#include "runtime/transport/grpc_bulk_server.h"
#include "runtime/transport/in_process_bulk_channel.h"
#include "runtime/transport/local_socket.h"
#include "runtime/transport/peer_channel.h"
#include "runtime/transport/shared_memory_bulk_channel.h"
#include "runtime/transport/shared_memory_bulk_server.h"
#include "runtime/transport/shared_memory_segment.h"

namespace shoal {
namespace {

// A service and a channel to it.
class Link {
 public:
  virtual ~Link() = default;
  virtual BulkChannel& channel() = 0;
  virtual void CloseChannel() = 0;
  BulkTestService service;
};

class InProcessLink : public Link {
 public:
  ~InProcessLink() override { CloseChannel(); }
  BulkChannel& channel() override { return *channel_; }
  void CloseChannel() override { channel_.reset(); }

 private:
  std::unique_ptr<BulkChannel> channel_ = NewInProcessBulkChannel(&service);
};

class GrpcLink : public Link {
 public:
  explicit GrpcLink(absl::Duration spin) : bulk_server_(&service, {1, spin}), client_(spin) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(64 << 20);
    bulk_server_.AddTo(&builder);
    server_ = builder.BuildAndStart();
    bulk_server_.Start();
    channel_ =
        client_.NewChannel(std::make_unique<PeerChannel>([this] { return NewGrpcChannel(); }));
  }
  ~GrpcLink() override {
    CloseChannel();
    service.AnswerParked();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    bulk_server_.Stop();
  }
  BulkChannel& channel() override { return *channel_; }
  void CloseChannel() override { channel_.reset(); }

  std::shared_ptr<grpc::Channel> NewGrpcChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(64 << 20);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

 private:
  int port_ = 0;
  GrpcBulkServer bulk_server_;
  std::unique_ptr<grpc::Server> server_;
  GrpcBulkClient client_;
  std::unique_ptr<BulkChannel> channel_;
};

class SharedMemoryLink : public Link {
 public:
  SharedMemoryLink() {
    // Sandboxes share these names, and number their processes alike.
    address = absl::StrCat("test:", SystemRandomHex());
    server = std::move(SharedMemoryBulkServer::Start(address, &service, 2).value());
    channel_ = std::move(ConnectSharedMemory(address, 8 << 20).value());
  }
  ~SharedMemoryLink() override {
    CloseChannel();
    service.AnswerParked();
  }
  BulkChannel& channel() override { return *channel_; }
  void CloseChannel() override { channel_.reset(); }

  std::string address;
  std::unique_ptr<SharedMemoryBulkServer> server;

 private:
  std::unique_ptr<BulkChannel> channel_;
};

struct Form {
  const char* name;
  std::function<std::unique_ptr<Link>()> make;
};

class BulkChannelTest : public testing::TestWithParam<Form> {
 protected:
  std::unique_ptr<Link> link_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(
    Forms, BulkChannelTest,
    testing::Values(Form{"InProcess", [] { return std::make_unique<InProcessLink>(); }},
                    Form{"Grpc", [] { return std::make_unique<GrpcLink>(absl::ZeroDuration()); }},
                    Form{"GrpcSpinning",
                         [] { return std::make_unique<GrpcLink>(absl::Microseconds(50)); }},
                    Form{"SharedMemory", [] { return std::make_unique<SharedMemoryLink>(); }}),
    [](const auto& info) { return info.param.name; });

std::string Pattern(size_t bytes) {
  std::string pattern(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<char>(i * 2654435761u >> 24);
  return pattern;
}

TEST_P(BulkChannelTest, PayloadsOfAnySizeArriveAsSent) {
  for (const size_t bytes : {0, 1, 255, 256, 4097, 1 << 20, (4 << 20) + 3}) {
    const std::string sent = Pattern(bytes);
    BulkTestCall call;
    call.header = "echo";
    call.payloads = {{sent.data(), bytes / 3, nullptr, nullptr},
                     {sent.data() + bytes / 3, bytes - bytes / 3, nullptr, nullptr}};
    link_->channel().Start(&call);
    call.Wait();
    ASSERT_TRUE(call.status.ok()) << call.status;
    EXPECT_EQ(call.received_header, "echo");
    EXPECT_TRUE(call.received == sent) << bytes;
  }
}

TEST_P(BulkChannelTest, AnErrorOfTheServiceReachesTheCaller) {
  BulkTestCall call;
  call.header = "fail";
  link_->channel().Start(&call);
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(call.status.message(), "no such slice");
}

TEST_P(BulkChannelTest, AParkedCallIsOvertakenAndAnsweredLater) {
  BulkTestCall parked;
  parked.header = "park";
  link_->channel().Start(&parked);
  link_->service.WaitForParked(1);
  BulkTestCall other;
  other.header = "echo";
  link_->channel().Start(&other);
  other.Wait();
  EXPECT_TRUE(other.status.ok());
  link_->service.AnswerParked();
  parked.Wait();
  EXPECT_TRUE(parked.status.ok());
  EXPECT_EQ(parked.received_header, "parked");
}

TEST_P(BulkChannelTest, ACallWithoutReplyEndsAtItsDeadline) {
  BulkTestCall call;
  call.header = "park";
  call.timeout = absl::Milliseconds(50);
  link_->channel().Start(&call);
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(BulkChannelTest, CancelEndsACall) {
  BulkTestCall call;
  call.header = "park";
  link_->channel().Start(&call);
  link_->service.WaitForParked(1);
  link_->channel().Cancel(&call);
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kCancelled);
  link_->channel().Cancel(&call);  // Not in flight any more: nothing happens.
}

TEST_P(BulkChannelTest, ClosingTheChannelEndsItsCalls) {
  BulkTestCall call;
  call.header = "park";
  call.timeout = absl::Hours(1);
  link_->channel().Start(&call);
  link_->service.WaitForParked(1);
  link_->CloseChannel();
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kCancelled);
}

TEST_P(BulkChannelTest, UnwantedReplyBuffersAreReleasedToo) {
  const std::string sent = Pattern(1 << 20);
  for (int i = 0; i < 8; ++i) {
    BulkTestCall call;
    call.header = "echo";
    call.payloads = {{sent.data(), sent.size(), nullptr, nullptr}};
    link_->channel().Start(&call);
    if (i % 2 == 1) link_->channel().Cancel(&call);
    call.Wait();
  }
  BulkTestService& service = link_->service;
  for (int i = 0; i < 5000 && service.buffers() != 0; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(service.buffers(), 0);
}

// Starts itself again from inside OnReply.
class RepeatingCall : public BulkTestCall {
 public:
  explicit RepeatingCall(BulkChannel* channel) : channel_(channel) {}
  void OnReply(const absl::Status& reply_status, absl::string_view reply_header,
               PayloadReader* payload) override {
    if (--left > 0) channel_->Start(this);
    BulkTestCall::OnReply(reply_status, reply_header, payload);
  }
  std::atomic<int> left{5};

 private:
  BulkChannel* const channel_;
};

TEST_P(BulkChannelTest, ACallCanBeStartedAgainInsideItsReply) {
  RepeatingCall call(&link_->channel());
  call.header = "echo";
  link_->channel().Start(&call);
  call.Wait(5);
  EXPECT_EQ(link_->service.calls(), 5);
}

TEST_P(BulkChannelTest, CallsFromManyThreadsAllEnd) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string sent = Pattern(10000 + t);
      for (int i = 0; i < 50; ++i) {
        BulkTestCall call;
        call.header = "echo";
        call.payloads = {{sent.data(), sent.size(), nullptr, nullptr}};
        link_->channel().Start(&call);
        call.Wait();
        if (call.received == sent) good.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 200);
}

// Raw bytes of a request -> how the server ends the call.
grpc::StatusCode SendRaw(grpc::GenericStub* stub, const std::string& method,
                         const std::string& bytes) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::Slice slice(bytes);
  auto reader = stub->PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  grpc::ByteBuffer reply;
  grpc::Status status;
  reader->StartCall();
  reader->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.error_code();
}

TEST(GrpcBulkServerTest, MalformedFramesAreRefused) {
  GrpcLink link(absl::ZeroDuration());
  grpc::GenericStub stub(link.NewGrpcChannel());
  const std::string method = "/shoal.v1.BulkService/Exchange";
  using namespace std::string_literals;
  const std::string large(70000, 'x');
  for (const std::string& bytes :
       {""s, "abc"s, "\x05\0\0\0echo"s, "\x04\0\0\0\0\0\0\0echo"s, "\xff\xff\xff\xff\0\0\0\0"s,
        "\x01\x00\x01\x00\0\0\0\0"s + large}) {
    EXPECT_EQ(SendRaw(&stub, method, bytes), grpc::StatusCode::DATA_LOSS) << bytes.size();
  }
  EXPECT_EQ(SendRaw(&stub, "/shoal.v1.BulkService/Other", "\0\0\0\0"s),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(link.service.calls(), 0);
}

TEST(GrpcBulkChannelTest, LooksForItsPeerAnewWhenItCannotConnect) {
  GrpcLink link(absl::ZeroDuration());
  bool known = false;
  GrpcBulkClient client;
  const auto channel = client.NewChannel(std::make_unique<PeerChannel>(
      [&] {
        return known ? link.NewGrpcChannel()
                     : grpc::CreateChannel("unix:/nonexistent/peer",
                                           grpc::InsecureChannelCredentials());
      },
      absl::ZeroDuration()));
  BulkTestCall call;
  call.header = "echo";
  channel->Start(&call);
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kUnavailable);
  known = true;
  channel->Start(&call);
  call.Wait(2);
  EXPECT_EQ(call.status, absl::OkStatus());
}

TEST(SharedMemoryTest, CallsEndWhenTheServerIsGone) {
  SharedMemoryLink link;
  BulkTestCall parked;
  parked.header = "park";
  parked.timeout = absl::Hours(1);
  link.channel().Start(&parked);
  link.service.WaitForParked(1);
  link.server->Stop();
  parked.Wait();
  EXPECT_EQ(parked.status.code(), absl::StatusCode::kUnavailable);
  BulkTestCall late;
  late.header = "echo";
  link.channel().Start(&late);
  late.Wait();
  EXPECT_EQ(late.status.code(), absl::StatusCode::kUnavailable);
}

TEST(SharedMemoryTest, WithoutAListenerItIsUnavailable) {
  EXPECT_EQ(ConnectSharedMemory("nowhere:1", 1 << 20).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(SharedMemoryTest, ServersWithOnePortAtTwoAddressesAreTwo) {
  BulkTestService first_service;
  BulkTestService second_service;
  const std::string port = absl::StrCat(":", SystemRandomHex());
  auto first = std::move(SharedMemoryBulkServer::Start("127.0.0.1" + port, &first_service).value());
  EXPECT_FALSE(ConnectSharedMemory("127.0.0.2" + port, 1 << 20).ok());
  auto second =
      std::move(SharedMemoryBulkServer::Start("127.0.0.2" + port, &second_service).value());
  EXPECT_TRUE(ConnectSharedMemory("localhost" + port, 1 << 20).ok());
}

TEST(SharedMemoryTest, APlaceIsTakenOnce) {
  SharedMemoryLink link;
  EXPECT_EQ(SharedMemoryBulkServer::Start(link.address, &link.service).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(SharedMemoryTest, ARequestAboveTheLimitIsRefused) {
  SharedMemoryLink link;
  const std::string large = Pattern((8 << 20) + 1);
  BulkTestCall call;
  call.header = "echo";
  call.payloads = {{large.data(), large.size(), nullptr, nullptr}};
  link.channel().Start(&call);
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(SharedMemoryTest, RefusedRequestsTakeNoPlaceFromOthers) {
  SharedMemoryLink link;
  const std::string large(kMaxBulkHeaderBytes + 1, 'x');
  BulkTestCall call;
  call.header = large;
  for (int i = 1; i <= 300; ++i) {  // More than there are slots.
    link.channel().Start(&call);
    call.Wait(i);
    ASSERT_EQ(call.status.code(), absl::StatusCode::kResourceExhausted) << i;
  }
  call.header = "echo";
  link.channel().Start(&call);
  call.Wait(301);
  EXPECT_EQ(call.status, absl::OkStatus());
}

// The server closes the connection of a broken client, or answers with an error.
class BrokenClient {
 public:
  explicit BrokenClient(const std::string& address, uint32_t num_slots = 2)
      : socket(std::move(ConnectLocal(SharedMemorySocketName(address)).value())) {
    shape.num_slots = num_slots;
    shape.max_payload_bytes = 4096;
    segment = std::move(SharedMemorySegment::Create(shape, &file).value());
  }
  bool Greet(const SegmentShape& with, const UniqueFd& attached) {
    uint32_t welcome = 0;
    return SendMessage(socket.get(), &with, sizeof(with), attached).ok() &&
           ReceiveMessage(socket.get(), &welcome, sizeof(welcome), nullptr).ok();
  }
  // Returns whether the server answers.
  bool Ring(uint32_t slot) {
    return SendMessage(socket.get(), &slot, sizeof(slot), UniqueFd()).ok() &&
           ReceiveMessage(socket.get(), &slot, sizeof(slot), nullptr).ok();
  }

  SegmentShape shape;
  UniqueFd socket;
  UniqueFd file;
  std::unique_ptr<SharedMemorySegment> segment;
};

TEST(SharedMemoryTest, BrokenGreetingsAreDropped) {
  SharedMemoryLink link;
  const std::vector<std::function<void(SegmentShape*)>> changes = {
      [](SegmentShape* shape) { shape->magic = 1; },
      [](SegmentShape* shape) { shape->num_slots = 3; },
      [](SegmentShape* shape) { shape->num_slots = 0xffffffff; },
      [](SegmentShape* shape) { shape->max_payload_bytes = UINT64_MAX; },
      [](SegmentShape* shape) { shape->max_payload_bytes = 1 << 20; }};
  for (const auto& change : changes) {
    BrokenClient client(link.address);
    SegmentShape shape = client.shape;
    change(&shape);
    EXPECT_FALSE(client.Greet(shape, client.file));
  }
  BrokenClient client(link.address);
  EXPECT_FALSE(client.Greet(client.shape, UniqueFd()));
  BrokenClient good(link.address);
  EXPECT_TRUE(good.Greet(good.shape, good.file));
}

absl::Duration ProcessorTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

TEST(SharedMemoryTest, AServerWithoutFilesWaitsForThemAtRest) {
  SharedMemoryLink link;
  BrokenClient early(link.address);  // So that all that is made once has been.
  ASSERT_TRUE(early.Greet(early.shape, early.file));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  // The listener must not have taken the client when files run out.
  const UniqueFd next(dup(0));
  limit.rlim_cur = static_cast<rlim_t>(next.get()) + 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<UniqueFd> taken;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.emplace_back(fd);
  ASSERT_FALSE(taken.empty());
  taken.pop_back();
  auto waiting = ConnectLocal(SharedMemorySocketName(link.address));
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  const absl::Duration used = ProcessorTime();
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_LT(ProcessorTime() - used, absl::Milliseconds(150));
  BulkTestCall call;  // Those who are there are served.
  call.header = "echo";
  link.channel().Start(&call);
  call.Wait();
  EXPECT_EQ(call.status, absl::OkStatus());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  uint32_t welcome = 0;
  ASSERT_TRUE(SendMessage(waiting->get(), &early.shape, sizeof(early.shape), early.file).ok());
  EXPECT_TRUE(ReceiveMessage(waiting->get(), &welcome, sizeof(welcome), nullptr).ok());
}

TEST(SharedMemoryTest, LengthsOutsideTheSlotAreRefused) {
  SharedMemoryLink link;
  BrokenClient client(link.address);
  ASSERT_TRUE(client.Greet(client.shape, client.file));
  using Half = SharedMemorySegment::Half;
  for (const auto& [header_bytes, payload_bytes] :
       std::vector<std::pair<uint32_t, uint64_t>>{{0xffffffff, 0}, {4, UINT64_MAX}, {4, 4097}}) {
    client.segment->message(0, Half::kRequest)->header_bytes = header_bytes;
    client.segment->message(0, Half::kRequest)->payload_bytes = payload_bytes;
    ASSERT_TRUE(client.Ring(0));
    EXPECT_EQ(client.segment->message(0, Half::kReply)->status_code,
              static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_FALSE(client.Ring(2));  // No such slot.
  EXPECT_EQ(link.service.calls(), 0);
}

// Sends notifications without reading replies until the server accepts no more. Returns false if
// that does not happen.
bool RingUntilDropped(BrokenClient* client) {
  for (int i = 0; i < 1'000'000; ++i) {
    const uint32_t slot = i % 2;
    const absl::Status sent = SendMessageNow(client->socket.get(), &slot, sizeof(slot));
    if (sent.ok()) continue;
    if (!absl::IsResourceExhausted(sent)) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

TEST(SharedMemoryTest, AClientThatNeverReadsItsRepliesHarmsOnlyItself) {
  SharedMemoryLink link;
  BrokenClient deaf(link.address);
  ASSERT_TRUE(deaf.Greet(deaf.shape, deaf.file));
  for (const uint32_t slot : {0, 1}) {
    deaf.segment->message(slot, SharedMemorySegment::Half::kRequest)->header_bytes = 0;
  }
  std::thread ringing([&deaf] { EXPECT_TRUE(RingUntilDropped(&deaf)); });
  BulkTestCall call;
  call.header = "echo";
  call.timeout = absl::Seconds(30);
  for (int i = 1; i <= 1000; ++i) {
    link.channel().Start(&call);
    call.Wait(i);
    EXPECT_EQ(call.status, absl::OkStatus());
    if (!call.status.ok()) break;
  }
  if (testing::Test::HasFailure()) shutdown(deaf.socket.get(), SHUT_RDWR);
  ringing.join();
}

TEST(SharedMemoryTest, RepliesThatHadNoRoomArriveWhenTheClientReads) {
  SharedMemoryLink link;
  BrokenClient slow(link.address, 4096);
  ASSERT_TRUE(slow.Greet(slow.shape, slow.file));
  for (uint32_t slot = 0; slot < slow.shape.num_slots; ++slot) {
    slow.segment->message(slot, SharedMemorySegment::Half::kRequest)->header_bytes = 0;
    ASSERT_TRUE(SendMessage(slow.socket.get(), &slot, sizeof(slot), UniqueFd()).ok());
  }
  std::vector<int> times_answered(slow.shape.num_slots, 0);
  for (uint32_t slot = 0; slot < slow.shape.num_slots; ++slot) {
    uint32_t answered = 0;
    ASSERT_TRUE(WaitReadable(slow.socket.get(), absl::Seconds(30))) << slot;
    ASSERT_TRUE(ReceiveMessage(slow.socket.get(), &answered, sizeof(answered), nullptr).ok());
    ASSERT_LT(answered, times_answered.size());
    EXPECT_EQ(++times_answered[answered], 1) << answered;  // Threads overtake each other.
  }
  EXPECT_TRUE(slow.Ring(0));
}

TEST(GrpcBulkServerTest, AServerThatWasNeverStartedCanBeDestroyed) {
  BulkTestService service;
  GrpcBulkServer bulk_server(&service, {});
  grpc::ServerBuilder builder;
  bulk_server.AddTo(&builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  server->Shutdown();
}

}  // namespace
}  // namespace shoal
