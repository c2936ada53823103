#include "runtime/transport/shared_memory_bulk_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "runtime/transport/local_socket.h"
#include "runtime/transport/shared_memory_segment.h"

namespace shoal {
namespace {

using Half = SharedMemorySegment::Half;

// The number of slots. Only those that are in flight at the same time use memory.
constexpr uint32_t kNumSlots = 256;
// The longest time between two checks of deadlines; calls with shorter deadlines wake the thread.
constexpr absl::Duration kLongestSleep = absl::Seconds(1);
constexpr absl::Duration kGreetingWait = absl::Seconds(2);

class SharedMemoryBulkChannel : public BulkChannel {
 public:
  SharedMemoryBulkChannel(UniqueFd socket, std::unique_ptr<SharedMemorySegment> segment);
  ~SharedMemoryBulkChannel() override;

  void Start(BulkCall* call) override;
  void Cancel(BulkCall* call) override;
  bool needs_checksums() const override { return false; }

 private:
  // kAbandoned: the call has ended, the server still owns the slot.
  enum class Stage { kFree, kFilling, kBusy, kDelivering, kAbandoned };
  struct Slot {
    Stage stage = Stage::kFree;
    BulkCall* call = nullptr;
    absl::Time deadline;
    absl::Status end;  // Not OK: what the call is to end with, without a reply.
    bool sent = true;  // Returns false if the server is not notified of the slot.
  };
  struct Ended {
    BulkCall* call;
    absl::Status status;
  };

  bool TakeSlot(BulkCall* call, uint32_t* slot);
  absl::Status Fill(const BulkCall& call, uint32_t slot);
  void Wake();
  void Run();
  // False: the server is gone.
  bool ReceiveReplies();
  void Deliver(uint32_t slot);
  void EndCalls(bool server_is_gone);
  absl::Time SleepUntil();
  bool IsDone();

  const RealClock clock_;
  const UniqueFd socket_;
  const UniqueFd wake_;  // eventfd
  const std::unique_ptr<SharedMemorySegment> segment_;
  PayloadReader reader_;  // Used on the channel's thread only.

  Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_){kNumSlots};
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);  // The last one was used last.
  std::vector<Ended> refused_ ABSL_GUARDED_BY(mutex_);  // Never got a slot.
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time awake_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::thread thread_;
};

SharedMemoryBulkChannel::SharedMemoryBulkChannel(UniqueFd socket,
                                                 std::unique_ptr<SharedMemorySegment> segment)
    : socket_(std::move(socket)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      segment_(std::move(segment)) {
  for (uint32_t slot = kNumSlots; slot-- > 0;) free_.push_back(slot);
  thread_ = std::thread([this] { Run(); });
}

SharedMemoryBulkChannel::~SharedMemoryBulkChannel() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
  }
  Wake();
  thread_.join();
}

void SharedMemoryBulkChannel::Wake() {
  const uint64_t one = 1;
  // Full only if the thread is to wake anyway.
  if (write(wake_.get(), &one, sizeof(one)) < 0) return;
}

void SharedMemoryBulkChannel::Start(BulkCall* call) {
  uint32_t slot = 0;
  const bool has_slot = TakeSlot(call, &slot);
  absl::Status status;
  if (has_slot) status = Fill(*call, slot);
  bool wake = !has_slot;
  if (has_slot) {
    {
      // The call, and its memory, may end at any time after this.
      MutexLock lock(&mutex_);
      Slot& owner = slots_[slot];
      owner.stage = Stage::kBusy;
      owner.sent = status.ok();
      if (owner.end.ok()) owner.end = status;
      wake = !owner.end.ok() || owner.deadline < awake_at_;
    }
    // Not under the lock, which the thread wants as soon as the server, woken by this, has replied.
    // A server that cannot be notified is gone, which the thread notices itself.
    if (status.ok()) wake |= !SendMessage(socket_.get(), &slot, sizeof(slot), UniqueFd()).ok();
  }
  if (wake) Wake();
}

bool SharedMemoryBulkChannel::TakeSlot(BulkCall* call, uint32_t* slot) {
  MutexLock lock(&mutex_);
  ++active_;
  if (free_.empty()) {
    refused_.push_back({call, absl::UnavailableError("shared memory: all slots are in use")});
    return false;
  }
  *slot = free_.back();
  free_.pop_back();
  slots_[*slot] = {Stage::kFilling, call, clock_.Now() + call->timeout, absl::OkStatus(), true};
  in_flight(call) = &slots_[*slot];
  return true;
}

absl::Status SharedMemoryBulkChannel::Fill(const BulkCall& call, uint32_t slot) {
  uint64_t bytes = 0;
  for (const PayloadRef& payload : call.payloads) bytes += payload.bytes;
  if (call.header.size() > kMaxBulkHeaderBytes || bytes > segment_->shape().max_payload_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory: a message larger than max: a request of ", call.header.size(),
                     " + ", bytes, " bytes"));
  }
  SharedMemorySegment::Message* message = segment_->message(slot, Half::kRequest);
  message->header_bytes = static_cast<uint32_t>(call.header.size());
  message->payload_bytes = bytes;
  message->status_code = 0;
  std::memcpy(segment_->header(slot, Half::kRequest), call.header.data(), call.header.size());
  char* to = segment_->payload(slot, Half::kRequest);
  for (const PayloadRef& payload : call.payloads) {
    std::memcpy(to, payload.data, payload.bytes);
    to += payload.bytes;
  }
  return absl::OkStatus();
}

void SharedMemoryBulkChannel::Cancel(BulkCall* call) {
  {
    MutexLock lock(&mutex_);
    auto* slot = static_cast<Slot*>(in_flight(call));
    if (slot == nullptr) return;
    if (slot->end.ok()) slot->end = absl::CancelledError("cancelled by the caller");
  }
  Wake();
}

bool SharedMemoryBulkChannel::IsDone() {
  MutexLock lock(&mutex_);
  return closing_ && active_ == 0;
}

absl::Time SharedMemoryBulkChannel::SleepUntil() {
  MutexLock lock(&mutex_);
  awake_at_ = clock_.Now() + kLongestSleep;
  for (const Slot& slot : slots_) {
    if (slot.stage == Stage::kBusy) awake_at_ = std::min(awake_at_, slot.deadline);
  }
  return awake_at_;
}

void SharedMemoryBulkChannel::Run() {
  bool server_is_gone = false;
  while (!IsDone()) {
    const absl::Duration sleep = std::max(SleepUntil() - clock_.Now(), absl::ZeroDuration());
    const timespec timeout = absl::ToTimespec(sleep);
    pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    if (ppoll(fds, server_is_gone ? 1 : 2, &timeout, nullptr) < 0) continue;
    uint64_t count = 0;
    if (fds[0].revents != 0 && read(wake_.get(), &count, sizeof(count)) < 0) continue;
    if (!server_is_gone && fds[1].revents != 0) server_is_gone = !ReceiveReplies();
    EndCalls(server_is_gone);
  }
}

bool SharedMemoryBulkChannel::ReceiveReplies() {
  do {
    uint32_t slot = 0;
    if (!ReceiveMessage(socket_.get(), &slot, sizeof(slot), nullptr).ok()) return false;
    if (slot >= kNumSlots) return false;
    Deliver(slot);
  } while (WaitReadable(socket_.get(), absl::ZeroDuration()));
  return true;
}

void SharedMemoryBulkChannel::Deliver(uint32_t slot) {
  BulkCall* call = nullptr;
  {
    MutexLock lock(&mutex_);
    Slot& owner = slots_[slot];
    if (owner.stage == Stage::kBusy) {
      call = owner.call;
      in_flight(call) = nullptr;
      owner.stage = Stage::kDelivering;
    } else if (owner.stage == Stage::kAbandoned) {
      owner.stage = Stage::kFree;
      free_.push_back(slot);
    }
  }
  if (call == nullptr) return;
  const SharedMemorySegment::Message message = *segment_->message(slot, Half::kReply);
  const char* header = segment_->header(slot, Half::kReply);
  reader_.Reset();
  call->is_answered = true;
  if (message.header_bytes > kMaxBulkHeaderBytes ||
      message.payload_bytes > segment_->shape().max_payload_bytes) {
    call->OnReply(absl::UnavailableError("shared memory: the lengths of a reply are damaged"), {},
                  &reader_);
  } else if (message.status_code != 0) {
    const absl::Status status(static_cast<absl::StatusCode>(message.status_code),
                              absl::string_view(header, message.header_bytes));
    call->OnReply(status, {}, &reader_);
  } else {
    reader_.Append(segment_->payload(slot, Half::kReply), message.payload_bytes);
    call->OnReply(absl::OkStatus(), absl::string_view(header, message.header_bytes), &reader_);
  }
  MutexLock lock(&mutex_);
  slots_[slot].stage = Stage::kFree;
  free_.push_back(slot);
  --active_;
}

void SharedMemoryBulkChannel::EndCalls(bool server_is_gone) {
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    ended.swap(refused_);
    const absl::Time now = clock_.Now();
    for (uint32_t i = 0; i < kNumSlots; ++i) {
      Slot& slot = slots_[i];
      if (slot.stage != Stage::kBusy) continue;
      absl::Status end = slot.end;
      if (end.ok() && server_is_gone) end = absl::UnavailableError("the server is gone");
      if (end.ok() && closing_) end = absl::CancelledError("the channel is closing");
      if (end.ok() && now >= slot.deadline) end = absl::DeadlineExceededError("no reply in time");
      if (end.ok()) continue;
      in_flight(slot.call) = nullptr;
      slot.stage = slot.sent ? Stage::kAbandoned : Stage::kFree;
      if (!slot.sent) free_.push_back(i);
      ended.push_back({slot.call, std::move(end)});
    }
  }
  PayloadReader nothing;
  for (const Ended& one : ended) {
    one.call->is_answered = false;
    one.call->OnReply(one.status, {}, &nothing);
  }
  MutexLock lock(&mutex_);
  active_ -= static_cast<int>(ended.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<BulkChannel>> ConnectSharedMemory(const std::string& address,
                                                                 size_t max_payload_bytes) {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectLocal(SharedMemorySocketName(address)));
  SegmentShape shape;
  shape.num_slots = kNumSlots;
  shape.max_payload_bytes = max_payload_bytes;
  UniqueFd file;
  ASSIGN_OR_RETURN(std::unique_ptr<SharedMemorySegment> segment,
                   SharedMemorySegment::Create(shape, &file));
  RETURN_IF_ERROR(SendMessage(socket.get(), &shape, sizeof(shape), file));
  uint32_t welcome = 0;
  if (!WaitReadable(socket.get(), kGreetingWait)) {
    return absl::UnavailableError("shared memory: the server does not answer");
  }
  RETURN_IF_ERROR(ReceiveMessage(socket.get(), &welcome, sizeof(welcome), nullptr));
  return std::unique_ptr<BulkChannel>(
      new SharedMemoryBulkChannel(std::move(socket), std::move(segment)));
}

}  // namespace shoal
