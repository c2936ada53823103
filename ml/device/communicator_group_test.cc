#include "ml/device/communicator_group.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/mutex.h"
#include "base/notification.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kTimeout = absl::Seconds(100);

// The state that the ranks share. A call starts when all ranks have made it. Thread-safe.
class Library {
 public:
  explicit Library(int num_ranks) : calls_(num_ranks), errors_(num_ranks) {}

  absl::Status Begin(int rank, const std::string& what, bool is_collected) {
    MutexLock lock(&mutex_);
    log_.push_back(absl::StrCat(rank, ": ", what));
    if (rank == failing_rank) return absl::InternalError("the library is broken");
    if (!is_collected) ++calls_[rank];
    return absl::OkStatus();
  }
  bool HasStarted(int rank, bool is_closing) {
    MutexLock lock(&mutex_);
    bool has_started = is_closing ? !never_closes : !never_opens;
    for (int calls : calls_) has_started = has_started && calls >= calls_[rank];
    if (!has_started) waits.Notify();
    return has_started;
  }
  void NoteError(int rank, const absl::Status& status) {
    MutexLock lock(&mutex_);
    errors_[rank].push_back(status.ToString());
  }

  std::vector<std::string> Errors(int rank) const {
    MutexLock lock(&mutex_);
    return errors_[rank];
  }
  std::vector<int> Calls() const {
    MutexLock lock(&mutex_);
    return calls_;
  }
  // Returns the calls whose name ends with `end`.
  std::vector<std::string> Log(absl::string_view end) const {
    MutexLock lock(&mutex_);
    std::vector<std::string> some;
    for (const std::string& line : log_) {
      if (absl::EndsWith(line, end)) some.push_back(line);
    }
    return some;
  }

  // Set before the ranks start.
  int failing_rank = -1;
  bool never_opens = false, never_closes = false;
  Notification waits;  // a rank has had to wait

 private:
  mutable Mutex mutex_;
  std::vector<int> calls_ ABSL_GUARDED_BY(mutex_);                        // by rank
  std::vector<std::vector<std::string>> errors_ ABSL_GUARDED_BY(mutex_);  // by rank
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
};

// Nothing may be called after an abort.
class FakeCommunicator final : public Communicator {
 public:
  FakeCommunicator(Library* library, int rank) : library_(*library), rank_(rank) {}

  absl::Status ReduceSum(int, const float*, float*, size_t) override { return Begin("sum"); }
  absl::Status Broadcast(int, void*, size_t) override { return Begin("broadcast"); }
  absl::Status StartBatch() override {
    EXPECT_FALSE(is_aborted_);
    is_batching_ = true;
    return absl::OkStatus();
  }
  absl::Status EndBatch() override {
    is_batching_ = false;
    return Begin("batch");
  }
  absl::Status StartClosing() override {
    is_closing_ = true;
    return Begin("closing");
  }
  absl::StatusOr<bool> HasStarted() override {
    EXPECT_FALSE(is_aborted_);
    return library_.HasStarted(rank_, is_closing_);
  }
  void Abort() override {
    (void)Begin("abort");
    is_aborted_ = true;
  }

 private:
  absl::Status Begin(const std::string& what) {
    EXPECT_FALSE(is_aborted_) << what;
    return library_.Begin(rank_, what, is_batching_);
  }

  Library& library_;
  const int rank_;
  bool is_batching_ = false, is_closing_ = false, is_aborted_ = false;
};

// The clock does not advance unless a test advances it.
std::unique_ptr<CommunicatorGroup> Open(int num_ranks, Library* library, const Clock* clock) {
  CommunicatorGroupOptions options;
  for (int r = 0; r < num_ranks; ++r) {
    options.members.push_back(
        {std::make_unique<FakeCommunicator>(library, r), absl::StrCat("GPU ", r),
         [library, r](const absl::Status& status) { library->NoteError(r, status); }});
  }
  options.timeout = kTimeout;
  options.clock = clock;
  return std::make_unique<CommunicatorGroup>(std::move(options));
}

using Call = void (*)(CommunicatorGroup* group, int rank);
// Each of the three, and what it is called in messages.
const std::vector<std::pair<std::string, Call>> kCalls = {
    {"a sum", [](CommunicatorGroup* g, int rank) { g->ReduceSum(rank, 0, nullptr, nullptr, 1); }},
    {"a broadcast", [](CommunicatorGroup* g, int rank) { g->Broadcast(rank, 0, nullptr, 1); }},
    {"a batch", [](CommunicatorGroup* g, int rank) {
       g->StartBatch(rank);
       g->Broadcast(rank, 0, nullptr, 1);
       g->ReduceSum(rank, 0, nullptr, nullptr, 1);
       g->EndBatch(rank);
     }}};

TEST(CommunicatorGroupTest, CallsReturnWhenAllRanksHaveComeToThem) {
  FakeClock clock;
  Library library(2);
  const auto group = Open(2, &library, &clock);
  EXPECT_TRUE(group->AwaitOpen().ok());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&group, rank] {
      for (int i = 0; i < 50; ++i) {
        for (const auto& [name, call] : kCalls) call(group.get(), rank);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(library.Calls(), ElementsAre(150, 150));  // a batch is one
  EXPECT_THAT(library.Log("sum"), SizeIs(2 * 100));
  EXPECT_THAT(library.Errors(0), IsEmpty());
  EXPECT_THAT(library.Errors(1), IsEmpty());
}

TEST(CommunicatorGroupTest, RanksThatDoNotComeAreNamedInTime) {
  for (const auto& [name, call] : kCalls) {
    FakeClock clock;
    Library library(3);
    const auto group = Open(3, &library, &clock);
    std::thread rank([&group, call = call] { call(group.get(), 1); });
    library.waits.Wait();
    clock.Advance(kTimeout - absl::Seconds(1));
    EXPECT_THAT(library.Errors(1), IsEmpty());
    clock.Advance(absl::Seconds(1));
    rank.join();
    EXPECT_THAT(library.Errors(1), ElementsAre("DEADLINE_EXCEEDED: GPU 1: " + name +
                                               " still waits after 1m40s for GPU 0, GPU 2"));
    EXPECT_THAT(library.Log("abort"), ElementsAre("0: abort", "1: abort", "2: abort"));
  }
}

TEST(CommunicatorGroupTest, AnAbortEndsWaitsAtOnce) {
  for (const auto& [name, call] : kCalls) {
    FakeClock clock;
    Library library(2);
    const auto group = Open(2, &library, &clock);
    std::thread rank([&group, call = call] { call(group.get(), 0); });
    library.waits.Wait();
    group->Abort();
    rank.join();
    group->Abort();
    call(group.get(), 1);
    EXPECT_THAT(library.Errors(0), IsEmpty()) << name;
    EXPECT_THAT(library.Log("abort"), ElementsAre("0: abort", "1: abort"));
  }
}

TEST(CommunicatorGroupTest, ACallThatFailsAbortsTheGroup) {
  for (const auto& [name, call] : kCalls) {
    FakeClock clock;
    Library library(2);
    library.failing_rank = 1;
    const auto group = Open(2, &library, &clock);
    call(group.get(), 1);
    EXPECT_THAT(library.Errors(1), ElementsAre("INTERNAL: the library is broken")) << name;
    EXPECT_THAT(library.Log("abort"), ElementsAre("0: abort", "1: abort"));
    call(group.get(), 0);
    EXPECT_THAT(library.Errors(0), IsEmpty());
  }
}

TEST(CommunicatorGroupTest, AGroupThatDoesNotOpenIsGivenUpInTime) {
  FakeClock clock;
  Library library(2);
  library.never_opens = true;
  const auto group = Open(2, &library, &clock);
  absl::Status status;
  std::thread opening([&] { status = group->AwaitOpen(); });
  library.waits.Wait();
  clock.Advance(kTimeout);
  opening.join();
  EXPECT_EQ(status.ToString(),
            "DEADLINE_EXCEEDED: GPU 0: opening the group still waits after 1m40s, though every "
            "device of the group has come to it");
  EXPECT_THAT(library.Log("abort"), ElementsAre("0: abort", "1: abort"));
}

TEST(CommunicatorGroupTest, ClosingIsOrderly) {
  FakeClock clock;
  Library library(2);
  Open(2, &library, &clock).reset();
  EXPECT_THAT(library.Log(""), ElementsAre("0: closing", "1: closing"));
}

TEST(CommunicatorGroupTest, ClosingThatTakesTooLongIsAborted) {
  FakeClock clock;
  Library library(1);
  library.never_closes = true;
  auto group = Open(1, &library, &clock);
  std::thread closing([&group] { group.reset(); });
  library.waits.Wait();
  clock.Advance(kTimeout);
  closing.join();
  EXPECT_THAT(library.Log(""), ElementsAre("0: closing", "0: abort"));
}

}  // namespace
}  // namespace shoal
