#include "runtime/transport/shared_memory_bulk_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/transport/local_socket.h"
#include "runtime/transport/shared_memory_segment.h"

namespace shoal {
namespace {

using Half = SharedMemorySegment::Half;

constexpr uint32_t kWelcome = 1;
constexpr size_t kMaxConnections = 4096;
// A thread processes this number of messages of one client before it checks the other clients.
constexpr int kMessagesInARow = 16;
// New connections wait for this time if the process or the system is out of files.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

}  // namespace

// The call in one slot. The object is reused for the slot's next call.
class SharedMemoryBulkServer::SlotCall : public ServedCall {
 public:
  explicit SlotCall(uint32_t slot) : slot_(slot) {}

  absl::string_view header() const override { return header_; }
  PayloadReader* payload() override { return &payload_; }
  bool needs_checksums() const override { return false; }
  void Reply(const absl::Status& status) override;

  // INVALID_ARGUMENT: lengths outside the slot.
  absl::Status Begin(const std::shared_ptr<Connection>& connection);

 private:
  absl::Status Write(const absl::Status& status, const SharedMemorySegment& segment);

  const uint32_t slot_;
  std::shared_ptr<Connection> connection_;  // Null after the reply.
  std::string header_;
  PayloadReader payload_;
};

// A client.
class SharedMemoryBulkServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `epoll` is the server's; it is not used after Close. `events`: what it reports of messages.
  Connection(UniqueFd socket, int epoll, uint32_t events)
      : socket_(std::move(socket)), epoll_(epoll), events_(events) {}

  int fd() const { return socket_.get(); }
  const SharedMemorySegment& segment() const { return *segment_; }

  // Takes the next message, if there is one: the greeting, or a slot with a request. Not OK: drop
  // the connection. Several threads at a time.
  absl::Status Receive(BulkService* service, bool* empty);
  // The server's thread has not taken all messages.
  void WatchAgain();
  // Replies are still written, but the client is not notified.
  void Close();
  void Answer(uint32_t slot);
  // Sends the replies that the client had no room for.
  void SendUnsent();

 private:
  absl::Status ReceiveGreeting(bool* empty) ABSL_EXCLUSIVE_LOCKS_REQUIRED(receiving_);
  // Null, or the call whose message has come.
  absl::StatusOr<SlotCall*> ReceiveCall(bool* empty) ABSL_EXCLUSIVE_LOCKS_REQUIRED(receiving_);
  // False: the client has no room for it now.
  bool Send(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Replaces what epoll is to report: messages, and room if something is unsent.
  void Watch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd socket_;
  const int epoll_;
  const uint32_t events_;
  Mutex receiving_;                               // One message at a time.
  std::unique_ptr<SharedMemorySegment> segment_;  // Null before the greeting.
  // Indexed by slot; created when first used.
  std::vector<std::unique_ptr<SlotCall>> calls_ ABSL_GUARDED_BY(receiving_);
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Indexed by slot: the client waits for a reply, or for the notification of it.
  std::vector<uint8_t> busy_ ABSL_GUARDED_BY(mutex_);
  // Slots, in order, whose replies are there and of which the client has not been notified.
  std::vector<uint32_t> unsent_ ABSL_GUARDED_BY(mutex_);
};

absl::Status SharedMemoryBulkServer::Connection::ReceiveGreeting(bool* empty) {
  SegmentShape shape;
  UniqueFd file;
  RETURN_IF_ERROR(ReceiveMessage(fd(), &shape, sizeof(shape), &file, empty));
  if (*empty) return absl::OkStatus();
  if (!file.is_valid()) return absl::InvalidArgumentError("shared memory: no file came with it");
  ASSIGN_OR_RETURN(segment_, SharedMemorySegment::Map(shape, file));
  calls_.resize(shape.num_slots);
  {
    MutexLock lock(&mutex_);
    busy_.resize(shape.num_slots);
  }
  return SendMessage(fd(), &kWelcome, sizeof(kWelcome), UniqueFd());
}

absl::StatusOr<SharedMemoryBulkServer::SlotCall*> SharedMemoryBulkServer::Connection::ReceiveCall(
    bool* empty) {
  if (segment_ == nullptr) {
    RETURN_IF_ERROR(ReceiveGreeting(empty));
    return nullptr;
  }
  uint32_t slot = 0;
  RETURN_IF_ERROR(ReceiveMessage(fd(), &slot, sizeof(slot), nullptr, empty));
  if (*empty) return nullptr;
  {
    MutexLock lock(&mutex_);
    if (slot >= busy_.size() || busy_[slot]) {
      return absl::InvalidArgumentError("shared memory: a slot that is not the client's");
    }
    busy_[slot] = true;
  }
  if (calls_[slot] == nullptr) calls_[slot] = std::make_unique<SlotCall>(slot);
  return calls_[slot].get();
}

absl::Status SharedMemoryBulkServer::Connection::Receive(BulkService* service, bool* empty) {
  SlotCall* call = nullptr;
  {
    MutexLock lock(&receiving_);
    ASSIGN_OR_RETURN(call, ReceiveCall(empty));
  }
  if (call == nullptr) return absl::OkStatus();
  const absl::Status status = call->Begin(shared_from_this());
  if (status.ok()) {
    service->Exchange(call);
  } else {
    call->Reply(status);
  }
  return absl::OkStatus();
}

void SharedMemoryBulkServer::Connection::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
}

bool SharedMemoryBulkServer::Connection::Send(uint32_t slot) {
  // Only the error of missing room is temporary; the thread notices a client that is gone.
  if (absl::IsResourceExhausted(SendMessageNow(fd(), &slot, sizeof(slot)))) return false;
  busy_[slot] = false;
  return true;
}

void SharedMemoryBulkServer::Connection::Watch() {
  if (closed_) return;
  epoll_event event = {};
  event.events = unsent_.empty() ? events_ : events_ | EPOLLOUT;
  event.data.fd = fd();
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd(), &event);
}

void SharedMemoryBulkServer::Connection::WatchAgain() {
  MutexLock lock(&mutex_);
  Watch();
}

void SharedMemoryBulkServer::Connection::Answer(uint32_t slot) {
  MutexLock lock(&mutex_);
  if (closed_ || (unsent_.empty() && Send(slot))) return;
  unsent_.push_back(slot);
  if (unsent_.size() == 1) Watch();
}

void SharedMemoryBulkServer::Connection::SendUnsent() {
  MutexLock lock(&mutex_);
  size_t sent = 0;
  while (sent < unsent_.size() && Send(unsent_[sent])) ++sent;
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<ptrdiff_t>(sent));
  if (unsent_.empty()) Watch();
}

absl::Status SharedMemoryBulkServer::SlotCall::Begin(
    const std::shared_ptr<Connection>& connection) {
  connection_ = connection;
  const SharedMemorySegment& segment = connection->segment();
  SharedMemorySegment::Message message;
  std::memcpy(&message, segment.message(slot_, Half::kRequest), sizeof(message));
  payload_.Reset();
  if (message.header_bytes > kMaxBulkHeaderBytes ||
      message.payload_bytes > segment.shape().max_payload_bytes) {
    return absl::InvalidArgumentError("shared memory: lengths outside the slot");
  }
  header_.assign(segment.header(slot_, Half::kRequest), message.header_bytes);
  payload_.Append(segment.payload(slot_, Half::kRequest), message.payload_bytes);
  return absl::OkStatus();
}

void SharedMemoryBulkServer::SlotCall::Reply(const absl::Status& status) {
  const std::shared_ptr<Connection> connection = std::move(connection_);
  const absl::Status written = Write(status, connection->segment());
  if (!written.ok()) Write(written, connection->segment()).IgnoreError();
  DropReply();
  connection->Answer(slot_);
}

absl::Status SharedMemoryBulkServer::SlotCall::Write(const absl::Status& status,
                                                     const SharedMemorySegment& segment) {
  SharedMemorySegment::Message message = {};
  message.status_code = static_cast<uint32_t>(status.code());
  absl::string_view header = status.ok() ? absl::string_view(reply_header) : status.message();
  if (!status.ok()) header = header.substr(0, 1024);
  char* to = segment.payload(slot_, Half::kReply);
  if (status.ok()) {
    for (const PayloadRef& payload : reply_payloads) message.payload_bytes += payload.bytes;
    if (header.size() > kMaxBulkHeaderBytes ||
        message.payload_bytes > segment.shape().max_payload_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("shared memory: a message larger than max: a reply of ", header.size(),
                       " + ", message.payload_bytes, " bytes"));
    }
    for (const PayloadRef& payload : reply_payloads) {
      std::memcpy(to, payload.data, payload.bytes);
      to += payload.bytes;
    }
  }
  message.header_bytes = static_cast<uint32_t>(header.size());
  std::memcpy(segment.header(slot_, Half::kReply), header.data(), header.size());
  std::memcpy(segment.message(slot_, Half::kReply), &message, sizeof(message));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SharedMemoryBulkServer>> SharedMemoryBulkServer::Start(
    const std::string& address, BulkService* service, size_t num_threads) {
  ASSIGN_OR_RETURN(UniqueFd listener, ListenLocal(SharedMemorySocketName(address)));
  return absl::WrapUnique(new SharedMemoryBulkServer(std::move(listener), service, num_threads));
}

SharedMemoryBulkServer::SharedMemoryBulkServer(UniqueFd listener, BulkService* service,
                                               size_t num_threads)
    : listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      service_(service),
      // Each new message wakes one of several threads, which takes all that it finds.
      message_events_(EPOLLIN | (num_threads == 1 ? 0u : uint32_t{EPOLLET})),
      messages_in_a_row_(num_threads == 1 ? 1 : kMessagesInARow) {
  Watch(listener_.get(), EPOLLIN);
  Watch(stop_.get(), EPOLLIN);
  for (size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

SharedMemoryBulkServer::~SharedMemoryBulkServer() { Stop(); }

void SharedMemoryBulkServer::Stop() {
  if (threads_.empty()) return;
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof(one)) < 0) {
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  MutexLock lock(&mutex_);
  for (auto& [fd, connection] : connections_) {
    connection->Close();
    shutdown(fd, SHUT_RDWR);
  }
  connections_.clear();
}

void SharedMemoryBulkServer::Watch(int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void SharedMemoryBulkServer::Unwatch(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

int SharedMemoryBulkServer::SleepTime() {
  MutexLock lock(&mutex_);
  if (accept_again_ == absl::InfiniteFuture()) return -1;
  const absl::Duration pause = accept_again_ - clock_.Now();
  if (pause > absl::ZeroDuration()) return static_cast<int>(absl::ToInt64Milliseconds(pause)) + 1;
  accept_again_ = absl::InfiniteFuture();
  Watch(listener_.get(), EPOLLIN);
  return -1;
}

void SharedMemoryBulkServer::Accept() {
  MutexLock lock(&mutex_);
  if (accept_again_ != absl::InfiniteFuture()) return;  // Another thread has found it full.
  bool exhausted = false;
  UniqueFd socket = AcceptLocal(listener_, geteuid(), &exhausted);
  if (exhausted) {
    // A waiting connection keeps the listener readable, so the thread would spin.
    Unwatch(listener_.get());
    accept_again_ = clock_.Now() + kAcceptPause;
  }
  if (!socket.is_valid() || connections_.size() >= kMaxConnections) return;
  const int fd = socket.get();
  connections_[fd] = std::make_shared<Connection>(std::move(socket), epoll_.get(), message_events_);
  Watch(fd, message_events_);
}

void SharedMemoryBulkServer::Run() {
  while (true) {
    epoll_event event;
    if (epoll_wait(epoll_.get(), &event, 1, SleepTime()) != 1) continue;
    if (event.data.fd == stop_.get()) return;
    if (event.data.fd == listener_.get()) {
      Accept();
      continue;
    }
    Serve(event.events, event.data.fd);
  }
}

void SharedMemoryBulkServer::Serve(uint32_t events, int fd) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(&mutex_);
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    connection = found->second;
  }
  if ((events & EPOLLOUT) != 0) connection->SendUnsent();
  // EPOLLERR and EPOLLHUP: receiving says that the client is gone.
  if ((events & ~EPOLLOUT) == 0) return;
  for (int i = 0; i < messages_in_a_row_; ++i) {
    bool empty = false;
    if (!connection->Receive(service_, &empty).ok()) {
      Drop(connection);
      return;
    }
    if (empty) return;
  }
  if (messages_in_a_row_ > 1) connection->WatchAgain();
}

void SharedMemoryBulkServer::Drop(const std::shared_ptr<Connection>& connection) {
  MutexLock lock(&mutex_);
  const auto found = connections_.find(connection->fd());
  if (found == connections_.end() || found->second != connection) return;
  Unwatch(connection->fd());
  connection->Close();
  connections_.erase(found);
}

}  // namespace shoal
