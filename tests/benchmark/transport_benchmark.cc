// Compares the bulk path with raw TCP in the same run: elapsed time and CPU time of a call, by
// size.
//
//   push      the payload goes to the server, which copies it into a scratch and checks it
//   pull      the payload comes back and is copied into place and checked
//   exchange  both in one call
// The CPU time of a call is that of both sides together. Every round measures all transports in
// turn; the program prints medians.
//
// usage: transport_benchmark [--rounds=5] [--milliseconds=100] [--spin_us=0]
// [--sizes=1024,65536,...]
#include <grpcpp/impl/codegen/service_type.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/grpc_server.h"
#include "runtime/transport/grpc_bulk_channel.h"
#include "runtime/transport/grpc_bulk_server.h"
#include "runtime/transport/shared_memory_bulk_channel.h"
#include "runtime/transport/shared_memory_bulk_server.h"

namespace shoal {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

enum class Kind { kPush, kPull, kExchange };
constexpr const char* kKindNames[] = {"push", "pull", "exchange"};

// Bytes of the request's and of the reply's payload.
struct Shape {
  size_t pushed = 0;
  size_t pulled = 0;
};

Shape ShapeOf(Kind kind, size_t bytes) {
  return {kind == Kind::kPull ? 0 : bytes, kind == Kind::kPush ? 0 : bytes};
}

std::vector<float>& Scratch(size_t bytes) {
  thread_local std::vector<float> scratch;
  if (scratch.size() * sizeof(float) < bytes) scratch.resize(bytes / sizeof(float) + 1);
  return scratch;
}

// A connection over which one call at a time is made.
class Link {
 public:
  virtual ~Link() = default;
  virtual void Call(const Shape& shape) = 0;
};

void WriteAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    CHECK(written > 0);
    at += written;
    bytes -= written;
  }
}

// False at the end of the stream.
bool ReadAll(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= got;
  }
  return true;
}

// Blocking sockets without a protocol and without checksums, as the limit that the kernel sets.
class TcpLink : public Link {
 public:
  TcpLink() : source_(kMaxBytes / sizeof(float), 1.0f), target_(kMaxBytes / sizeof(float)) {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    CHECK(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    CHECK(listen(listener.get(), 1) == 0);
    CHECK(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    client_.Reset(socket(AF_INET, SOCK_STREAM, 0));
    CHECK(connect(client_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    server_.Reset(accept(listener.get(), nullptr, nullptr));
    for (const int fd : {client_.get(), server_.get()}) {
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    thread_ = std::thread([this] { Serve(); });
  }
  ~TcpLink() override {
    shutdown(client_.get(), SHUT_RDWR);
    thread_.join();
  }

  void Call(const Shape& shape) override {
    WriteAll(client_.get(), &shape, sizeof(shape));
    WriteAll(client_.get(), source_.data(), shape.pushed);
    char reply = 0;
    CHECK(ReadAll(client_.get(), &reply, 1));
    CHECK(ReadAll(client_.get(), target_.data(), shape.pulled));
  }

 private:
  void Serve() {
    Shape shape;
    while (ReadAll(server_.get(), &shape, sizeof(shape))) {
      CHECK(ReadAll(server_.get(), Scratch(shape.pushed).data(), shape.pushed));
      WriteAll(server_.get(), "r", 1);
      WriteAll(server_.get(), source_.data(), shape.pulled);
    }
  }

  std::vector<float> source_;
  std::vector<float> target_;
  UniqueFd client_;
  UniqueFd server_;
  std::thread thread_;
};

// A service as lean as the real one: payloads in slices of 256 KiB are copied, summed and answered
// in place.
class BenchmarkService : public BulkService {
 public:
  BenchmarkService() : values_(kMaxBytes / sizeof(float), 2.0f) {}

  void Exchange(ServedCall* call) override {
    Shape shape;
    std::memcpy(&shape, call->header().data(), sizeof(shape));
    for (size_t at = 0; at < shape.pushed; at += kSliceBytes) {
      const size_t bytes = std::min(kSliceBytes, shape.pushed - at);
      if (call->payload()->Borrow(bytes) != nullptr) continue;
      uint32_t crc = 0;
      call->payload()->Copy(Scratch(bytes).data(), bytes, call->needs_checksums() ? &crc : nullptr);
    }
    call->reply_header = "r";
    for (size_t at = 0; at < shape.pulled; at += kSliceBytes) {
      const size_t bytes = std::min(kSliceBytes, shape.pulled - at);
      const char* data = reinterpret_cast<const char*>(values_.data()) + at;
      if (call->needs_checksums()) sum_ += Crc32c(data, bytes);
      call->reply_payloads.push_back({data, bytes, [](void*) {}, nullptr});
    }
    call->Reply(absl::OkStatus());
  }

 private:
  static constexpr size_t kSliceBytes = 256 << 10;
  const std::vector<float> values_;
  uint32_t sum_ = 0;
};

class BenchmarkCall : public BulkCall {
 public:
  void OnReply(const absl::Status& status, absl::string_view, PayloadReader* payload) override {
    CHECK_OK(status);
    uint32_t crc = 0;
    payload->Copy(target, payload->remaining(), with_checksums ? &crc : nullptr);
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
    done_ = false;
  }

  float* target = nullptr;
  bool with_checksums = true;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

// One call at a time over a channel.
class ChannelLink : public Link {
 public:
  ChannelLink() : source_(kMaxBytes / sizeof(float), 1.0f), target_(kMaxBytes / sizeof(float)) {}

  void Call(const Shape& shape) override {
    call_.target = target_.data();
    call_.with_checksums = channel_->needs_checksums();
    call_.timeout = absl::Seconds(60);
    call_.header.assign(reinterpret_cast<const char*>(&shape), sizeof(shape));
    call_.payloads.clear();
    if (call_.with_checksums) sum_ += Crc32c(source_.data(), shape.pushed);
    if (shape.pushed > 0)
      call_.payloads.push_back({source_.data(), shape.pushed, nullptr, nullptr});
    channel_->Start(&call_);
    call_.Wait();
  }

 protected:
  std::unique_ptr<BulkChannel> channel_;

 private:
  std::vector<float> source_;
  std::vector<float> target_;
  BenchmarkCall call_;
  uint32_t sum_ = 0;
};

class GrpcLink : public ChannelLink {
 public:
  explicit GrpcLink(absl::Duration spin)
      : bulk_(&service_, {1, spin}), control_(&chief_), client_(spin) {
    GrpcServer::Options options;
    options.services = {&control_};
    options.bulk = &bulk_;
    options.max_message_bytes = kMaxBytes + kMaxBulkHeaderBytes;
    server_ = std::move(GrpcServer::Create(options).value());
    channel_ = client_.NewChannel(
        NewGrpcChannel(server_->address(), ChannelUse::kBulk, options.max_message_bytes));
  }
  ~GrpcLink() override { channel_.reset(); }

 private:
  FakeChief chief_;
  BenchmarkService service_;
  GrpcBulkServer bulk_;
  GrpcChiefService<FakeChief> control_;
  std::unique_ptr<GrpcServer> server_;
  GrpcBulkClient client_;
};

class SharedMemoryLink : public ChannelLink {
 public:
  SharedMemoryLink() {
    const std::string place = absl::StrCat("benchmark:", getpid());
    server_ = std::move(SharedMemoryBulkServer::Start(place, &service_).value());
    channel_ = std::move(ConnectSharedMemory(place, kMaxBytes).value());
  }
  ~SharedMemoryLink() override { channel_.reset(); }

 private:
  BenchmarkService service_;
  std::unique_ptr<SharedMemoryBulkServer> server_;
};

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return t.tv_sec + 1e-6 * t.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Cost {
  double wall = 0;  // Seconds of a call.
  double cpu = 0;
};

Cost Measure(Link* link, const Shape& shape, absl::Duration duration) {
  for (int i = 0; i < 3; ++i) link->Call(shape);
  int calls = 0;
  const double cpu = CpuSeconds();
  const absl::Time start = absl::Now();
  while (absl::Now() - start < duration) {
    link->Call(shape);
    ++calls;
  }
  const double wall = absl::ToDoubleSeconds(absl::Now() - start);
  return {wall / calls, (CpuSeconds() - cpu) / calls};
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Settings {
  int rounds = 5;
  int milliseconds = 100;
  int spin_us = 0;
  std::vector<size_t> sizes = {1 << 10, 64 << 10, 256 << 10, 1 << 20, 1560000, 4 << 20, 16 << 20};
};

void Run(const Settings& settings) {
  std::map<std::string, std::unique_ptr<Link>> links;
  links["tcp"] = std::make_unique<TcpLink>();
  links["grpc"] = std::make_unique<GrpcLink>(absl::Microseconds(settings.spin_us));
  links["shared"] = std::make_unique<SharedMemoryLink>();
  std::printf("%-9s %9s  %-6s %10s %8s %8s %10s %9s\n", "kind", "bytes", "form", "us/call", "GB/s",
              "vs tcp", "cpu us", "cpu s/GB");
  for (const Kind kind : {Kind::kPush, Kind::kPull, Kind::kExchange}) {
    for (const size_t bytes : settings.sizes) {
      const Shape shape = ShapeOf(kind, bytes);
      std::map<std::string, std::vector<double>> walls, cpus;
      for (int round = 0; round < settings.rounds; ++round) {
        for (const auto& [name, link] : links) {
          const Cost cost = Measure(link.get(), shape, absl::Milliseconds(settings.milliseconds));
          walls[name].push_back(cost.wall);
          cpus[name].push_back(cost.cpu);
        }
      }
      const double total = static_cast<double>(shape.pushed + shape.pulled);
      for (const auto& [name, link] : links) {
        const double wall = Median(walls[name]);
        const double cpu = Median(cpus[name]);
        std::printf("%-9s %9zu  %-6s %10.1f %8.2f %8.2f %10.1f %9.2f\n",
                    kKindNames[static_cast<int>(kind)], bytes, name.c_str(), wall * 1e6,
                    total / wall * 1e-9, Median(walls["tcp"]) / wall, cpu * 1e6, cpu / total * 1e9);
      }
    }
  }
}

bool Parse(absl::string_view argument, Settings* settings) {
  if (absl::ConsumePrefix(&argument, "--rounds=")) {
    return absl::SimpleAtoi(argument, &settings->rounds) && settings->rounds > 0;
  }
  if (absl::ConsumePrefix(&argument, "--milliseconds=")) {
    return absl::SimpleAtoi(argument, &settings->milliseconds);
  }
  if (absl::ConsumePrefix(&argument, "--spin_us=")) {
    return absl::SimpleAtoi(argument, &settings->spin_us);
  }
  if (!absl::ConsumePrefix(&argument, "--sizes=")) return false;
  settings->sizes.clear();
  for (const absl::string_view word : absl::StrSplit(argument, ',')) {
    uint64_t size = 0;
    if (!absl::SimpleAtoi(word, &size) || size > kMaxBytes) return false;
    settings->sizes.push_back(size);
  }
  return true;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::Settings settings;
  for (int i = 1; i < argc; ++i) {
    if (shoal::Parse(argv[i], &settings)) continue;
    std::fprintf(stderr, "%s: see the top of transport_benchmark.cc\n", argv[i]);
    return 64;
  }
  shoal::Run(settings);
}
