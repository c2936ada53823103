#include "ml/device/communicator_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

// The time between two checks of a call that has not started.
constexpr absl::Duration kFirstPause = absl::Microseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(1);

}  // namespace

CommunicatorGroup::CommunicatorGroup(CommunicatorGroupOptions options)
    : timeout_(options.timeout), closing_timeout_(options.closing_timeout), clock_(*options.clock) {
  for (CommunicatorGroupOptions::Member& member : options.members) {
    auto rank = std::make_unique<Rank>();
    rank->name = std::move(member.name);
    rank->note_error = std::move(member.note_error);
    {
      MutexLock lock(&rank->mutex);
      rank->communicator = std::move(member.communicator);
    }
    ranks_.push_back(std::move(rank));
  }
}

// Starts to close all ranks before it waits for one of them. Nobody else uses the group any more.
CommunicatorGroup::~CommunicatorGroup() {
  for (auto& rank : ranks_) {
    MutexLock lock(&rank->mutex);
    if (rank->is_aborted || rank->communicator->StartClosing().ok()) continue;
    rank->communicator->Abort();
    rank->is_aborted = true;
  }
  for (auto& rank : ranks_) {
    MutexLock lock(&rank->mutex);
    if (rank->is_aborted || AwaitStart(rank.get(), "closing", closing_timeout_).ok()) continue;
    rank->communicator->Abort();
    rank->is_aborted = true;
  }
}

absl::Status CommunicatorGroup::AwaitOpen() {
  absl::Status status;
  for (size_t r = 0; r < ranks_.size() && status.ok(); ++r) {
    MutexLock lock(&ranks_[r]->mutex);
    status = AwaitStart(ranks_[r].get(), "opening the group", timeout_);
  }
  if (!status.ok()) Abort();
  return status;
}

void CommunicatorGroup::ReduceSum(int rank, int root, const float* from, float* to, size_t count) {
  Call(rank, "a sum",
       [=](Communicator& communicator) { return communicator.ReduceSum(root, from, to, count); });
}

void CommunicatorGroup::Broadcast(int rank, int root, void* data, size_t bytes) {
  Call(rank, "a broadcast",
       [=](Communicator& communicator) { return communicator.Broadcast(root, data, bytes); });
}

// A batch belongs to the calling thread, which is that of one rank. The thread holds the rank's
// mutex until EndBatch, so that Abort cannot destroy the communicator meanwhile. It does not block
// others for long, because the calls in between do not wait for other ranks.
void CommunicatorGroup::StartBatch(int index) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Rank& rank = *ranks_[index];
  rank.mutex.Lock();
  rank.is_batching = true;
  rank.batch_status = absl::OkStatus();
  if (rank.is_aborted) return;
  rank.batch_status = rank.communicator->StartBatch();
  rank.has_batch = rank.batch_status.ok();
}

void CommunicatorGroup::EndBatch(int index) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Rank& rank = *ranks_[index];
  if (rank.has_batch) {
    const absl::Status ended = rank.communicator->EndBatch();
    if (rank.batch_status.ok()) rank.batch_status = ended;
    ++rank.num_calls;
    if (rank.batch_status.ok()) rank.batch_status = AwaitStart(&rank, "a batch", timeout_);
  }
  rank.is_batching = rank.has_batch = false;
  const absl::Status status = rank.batch_status;
  rank.mutex.Unlock();
  if (!status.ok()) Fail(&rank, status);
}

void CommunicatorGroup::Abort() {
  for (auto& rank : ranks_) {
    MutexLock lock(&rank->mutex);
    if (rank->is_aborted) continue;
    rank->communicator->Abort();
    rank->is_aborted = true;
    rank->changed.NotifyAll();
  }
}

template <typename Collective>
void CommunicatorGroup::Call(int index, absl::string_view name, const Collective& collective) {
  Rank& rank = *ranks_[index];
  if (rank.is_batching) {
    rank.mutex.AssertHeld();
    if (rank.has_batch && rank.batch_status.ok()) {
      rank.batch_status = collective(*rank.communicator);
    }
    return;
  }
  absl::Status status;
  {
    MutexLock lock(&rank.mutex);
    if (rank.is_aborted) return;
    status = collective(*rank.communicator);
    ++rank.num_calls;
    if (status.ok()) status = AwaitStart(&rank, name, timeout_);
  }
  if (!status.ok()) Fail(&rank, status);
}

absl::Status CommunicatorGroup::AwaitStart(Rank* rank, absl::string_view call,
                                           absl::Duration timeout) {
  const absl::Time deadline = clock_.Now() + timeout;
  absl::Duration pause = kFirstPause;
  while (!rank->is_aborted) {
    ASSIGN_OR_RETURN(const bool has_started, rank->communicator->HasStarted());
    if (has_started) return absl::OkStatus();
    const absl::Time now = clock_.Now();
    if (now >= deadline) return TooLate(*rank, call, timeout);
    clock_.WaitUntil(std::min(deadline, now + pause), &rank->mutex, &rank->changed);
    pause = std::min(2 * pause, kLongestPause);
  }
  return absl::OkStatus();
}

absl::Status CommunicatorGroup::TooLate(const Rank& rank, absl::string_view call,
                                        absl::Duration timeout) const {
  std::vector<std::string> late;
  for (const auto& other : ranks_) {
    if (other->num_calls < rank.num_calls) late.push_back(other->name);
  }
  const std::string whom = late.empty() ? ", though every device of the group has come to it"
                                        : absl::StrCat(" for ", absl::StrJoin(late, ", "));
  return absl::DeadlineExceededError(absl::StrCat(rank.name, ": ", call, " still waits after ",
                                                  absl::FormatDuration(timeout), whom));
}

void CommunicatorGroup::Fail(Rank* rank, const absl::Status& status) {
  rank->note_error(status);
  Abort();
}

}  // namespace shoal
