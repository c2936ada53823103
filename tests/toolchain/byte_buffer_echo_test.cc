// Tests the way in which bulk data are sent: unary calls of raw bytes with gRPC's generic service,
// served by the thread of a completion queue. The payload is a slice that refers to memory of the
// caller.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/notification.h"

namespace shoal {
namespace {

// One call on the server: requested, read, answered, done. Deletes itself when done or at shutdown.
class EchoCall {
 public:
  EchoCall(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue)
      : service_(*service), queue_(*queue), stream_(&context_) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, this);
  }

  void Proceed(bool ok) {
    if (!ok || state_ == State::kAnswering) {
      delete this;
      return;
    }
    if (state_ == State::kRequested) {
      new EchoCall(&service_, &queue_);
      state_ = State::kReading;
      stream_.Read(&bytes_, this);
    } else {
      state_ = State::kAnswering;
      stream_.WriteAndFinish(bytes_, grpc::WriteOptions(), grpc::Status::OK, this);
    }
  }

 private:
  enum class State { kRequested, kReading, kAnswering };

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer bytes_;
  State state_ = State::kRequested;
};

class EchoServer {
 public:
  EchoServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    new EchoCall(&service_, queue_.get());
    thread_ = std::thread([this] {
      void* tag;
      bool ok;
      while (queue_->Next(&tag, &ok)) static_cast<EchoCall*>(tag)->Proceed(ok);
    });
  }

  ~EchoServer() {
    server_->Shutdown();
    queue_->Shutdown();
    thread_.join();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

// Memory that gRPC borrows; gRPC calls Notify() when it no longer uses it.
struct Lent {
  std::vector<char> bytes;
  Notification returned;
};

grpc::ByteBuffer BufferOver(const std::string& header, Lent* payload) {
  const grpc::Slice slices[] = {
      grpc::Slice(header),
      grpc::Slice(
          payload->bytes.data(), payload->bytes.size(),
          [](void* lent) { static_cast<Lent*>(lent)->returned.Notify(); }, payload),
  };
  return grpc::ByteBuffer(slices, 2);
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

// Sends a call and waits for it on its own queue.
grpc::Status Call(grpc::GenericStub* stub, const grpc::ByteBuffer& request,
                  grpc::ByteBuffer* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  grpc::CompletionQueue queue;
  const auto reader = stub->PrepareUnaryCall(&context, "/shoal.v1.Bulk/Echo", request, &queue);
  reader->StartCall();
  grpc::Status status;
  reader->Finish(response, &status, nullptr);
  void* tag;
  bool ok;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

TEST(ByteBufferEchoTest, PayloadComesBackAndItsMemoryIsReturned) {
  EchoServer server;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  grpc::GenericStub stub(
      grpc::CreateCustomChannel(server.address(), grpc::InsecureChannelCredentials(), arguments));
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{5} << 20}) {
    Lent payload;
    payload.bytes.resize(size);
    for (size_t i = 0; i < size; ++i) payload.bytes[i] = static_cast<char>(i * 7);
    std::string response;
    {
      grpc::ByteBuffer bytes;
      const grpc::Status status = Call(&stub, BufferOver("header", &payload), &bytes);
      ASSERT_TRUE(status.ok()) << status.error_message();
      response = Flatten(bytes);
    }
    EXPECT_EQ(response, "header" + std::string(payload.bytes.begin(), payload.bytes.end()));
    EXPECT_TRUE(payload.returned.WaitFor(absl::Seconds(30)));
  }
}

TEST(ByteBufferEchoTest, ManyThreadsCallAtOnce) {
  EchoServer server;
  grpc::GenericStub stub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&stub, i] {
      for (int j = 0; j < 20; ++j) {
        const std::string text = absl::StrCat("call ", i, " ", j);
        const grpc::Slice slice(text);
        grpc::ByteBuffer response;
        ASSERT_TRUE(Call(&stub, grpc::ByteBuffer(&slice, 1), &response).ok());
        EXPECT_EQ(Flatten(response), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shoal
