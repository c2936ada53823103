#include "runtime/transport/completion_loop.h"

#include <grpc/support/time.h>

#include <utility>

namespace shoal {
namespace {

constexpr absl::Duration kAgainAfter = absl::Milliseconds(1);

gpr_timespec FromNow(absl::Duration wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(absl::ToInt64Microseconds(wait), GPR_TIMESPAN));
}

}  // namespace

CompletionLoop::CompletionLoop(std::unique_ptr<grpc::CompletionQueue> queue, absl::Duration spin)
    : queue_(std::move(queue)), spin_(spin), thread_([this] { Run(); }) {}

CompletionLoop::~CompletionLoop() { Stop(); }

void CompletionLoop::Stop() {
  if (!thread_.joinable()) return;
  queue_->Shutdown();
  thread_.join();
}

void CompletionLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  bool got = false;
  while (Next(&tag, &ok, &got) || !again_.empty()) {
    if (got) {
      auto* completed = static_cast<CompletionTag*>(tag);
      completed->handed_over_.load(std::memory_order_acquire);
      if (!completed->OnCompleted(ok)) again_.push_back({completed, ok});
    } else {
      RunAgain();
    }
  }
}

bool CompletionLoop::Next(void** tag, bool* ok, bool* got) {
  *got = false;
  if (!again_.empty()) return NextOrTimeout(kAgainAfter, tag, ok, got);
  if (spin_ > absl::ZeroDuration()) {
    const absl::Time stop = absl::Now() + spin_;
    do {
      if (!NextOrTimeout(absl::ZeroDuration(), tag, ok, got)) return false;
      if (*got) return true;
    } while (absl::Now() < stop);
  }
  *got = queue_->Next(tag, ok);
  return *got;
}

bool CompletionLoop::NextOrTimeout(absl::Duration wait, void** tag, bool* ok, bool* got) {
  const auto next = queue_->AsyncNext(tag, ok, FromNow(wait));
  *got = next == grpc::CompletionQueue::GOT_EVENT;
  return next != grpc::CompletionQueue::SHUTDOWN;
}

void CompletionLoop::RunAgain() {
  std::vector<Again> again;
  again.swap(again_);
  for (const Again& one : again) {
    if (!one.tag->OnCompleted(one.ok)) again_.push_back(one);
  }
}

}  // namespace shoal
