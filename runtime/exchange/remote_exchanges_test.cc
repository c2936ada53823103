// Tests exchanges on one thread, with a channel whose calls the test answers and a clock that it
// advances.
#include "runtime/exchange/remote_exchanges.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "base/fake_clock.h"
#include "proto/v1/bulk.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/bulk.h"

namespace shoal {
namespace {

class ScriptedChannel : public BulkChannel {
 public:
  explicit ScriptedChannel(std::vector<BulkCall*>* calls) : calls_(calls) {}
  void Start(BulkCall* call) override { calls_->push_back(call); }
  void Cancel(BulkCall* call) override { cancelled.push_back(call); }
  bool needs_checksums() const override { return false; }

  std::vector<BulkCall*> cancelled;

 private:
  std::vector<BulkCall*>* const calls_;
};

// One slice of four floats at one ps.
class RemoteExchangesTest : public testing::Test {
 protected:
  RemoteExchangesTest() {
    v1::VariableSpec spec;
    spec.set_name("v");
    spec.add_shape(4);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    RemoteExchanges::Options options;
    options.groups = {{0, {0}, 16, true}};
    options.connect = [this](const std::string&) {
      auto channel = std::make_unique<ScriptedChannel>(&calls_);
      channel_ = channel.get();
      return channel;
    };
    exchanges_ = std::make_unique<RemoteExchanges>(
        SliceTable::Create({spec}, 64).value(), std::move(options), &clock_, [this] { ++dues_; });
    exchanges_->SetView({1, 1, 1, {"ps"}, {1}});
  }
  ~RemoteExchangesTest() override {
    exchanges_->Close();
    while (!calls_.empty()) Answer(absl::CancelledError("closed"));
    exchanges_->RunDue();
    EXPECT_TRUE(exchanges_->is_idle());
  }

  void Push() {
    Exchange exchange;
    exchange.lineage = 1;
    exchange.push = true;
    exchange.batch_examples = 2;
    exchange.push_data = push_data_;
    exchanges_->Start(exchange, [this](const ExchangeResult& result) {
      ends_.push_back(result.status);
      if (!result.outcomes.empty()) outcomes_.push_back(result.outcomes[0]);
    });
  }

  // Ends the oldest call.
  void Answer(const absl::Status& status, v1::PushOutcome outcome = v1::PUSH_OUTCOME_ACCEPTED,
              bool is_answered = false) {
    ASSERT_FALSE(calls_.empty());
    BulkCall* call = calls_.front();
    call->is_answered = is_answered;
    calls_.erase(calls_.begin());
    v1::ExchangeResponse response;
    response.add_outcomes(outcome);
    PayloadReader nothing;
    call->OnReply(status, status.ok() ? response.SerializeAsString() : "", &nothing);
  }

  void AnswerRoom(bool has_room) {
    BulkCall* call = calls_.front();
    calls_.erase(calls_.begin());
    v1::ExchangeResponse response;
    response.set_has_room(has_room);
    PayloadReader nothing;
    call->OnReply(absl::OkStatus(), response.SerializeAsString(), &nothing);
  }

  // Returns the bytes of the oldest call.
  uint64_t SentBytes() const {
    uint64_t bytes = 0;
    for (const PayloadRef& payload : calls_.front()->payloads) bytes += payload.bytes;
    return bytes;
  }

  FakeClock clock_;
  std::vector<BulkCall*> calls_;  // The calls that have no answer yet.
  ScriptedChannel* channel_ = nullptr;
  int dues_ = 0;
  const float gradient_[4] = {1, 2, 3, 4};
  const void* const push_data_[1] = {gradient_};
  std::vector<absl::Status> ends_;
  std::vector<PushOutcome> outcomes_;
  std::unique_ptr<RemoteExchanges> exchanges_;
};

TEST_F(RemoteExchangesTest, AnExchangeEndsWithItsReply) {
  Push();
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_TRUE(ends_.empty());
  Answer(absl::OkStatus());
  EXPECT_EQ(ends_, std::vector<absl::Status>{absl::OkStatus()});
  EXPECT_EQ(outcomes_, std::vector<PushOutcome>{PushOutcome::kAccepted});
  EXPECT_EQ(exchanges_->RunDue(), absl::InfiniteFuture());
}

TEST_F(RemoteExchangesTest, AnUnknownOutcomeIsSentAgainWhenItIsDue) {
  Push();
  const int dues = dues_;
  Answer(absl::UnavailableError("cut off"));
  EXPECT_GT(dues_, dues);
  EXPECT_TRUE(ends_.empty());
  const absl::Time due = exchanges_->RunDue();
  EXPECT_TRUE(calls_.empty());
  ASSERT_GT(due, clock_.Now());
  clock_.Advance(due - clock_.Now());
  exchanges_->RunDue();
  ASSERT_EQ(calls_.size(), 1u);
  Answer(absl::OkStatus(), v1::PUSH_OUTCOME_DUPLICATE);
  EXPECT_EQ(outcomes_, std::vector<PushOutcome>{PushOutcome::kDuplicate});
}

TEST_F(RemoteExchangesTest, AContributionWithoutRoomIsSentAgainOnlyWhenThereIsRoom) {
  Push();
  EXPECT_EQ(SentBytes(), 16u);
  Answer(absl::OkStatus(), v1::PUSH_OUTCOME_BUSY);
  exchanges_->RunDue();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(calls_.size(), 1u) << i;
    EXPECT_EQ(SentBytes(), 0u) << "a question for room carries no contribution";
    v1::ExchangeRequest request;
    ASSERT_TRUE(request.ParseFromString(calls_[0]->header));
    EXPECT_TRUE(request.asks_for_room());
    EXPECT_GT(request.park_milliseconds(), 0u);
    AnswerRoom(i == 2);
    clock_.Advance(exchanges_->RunDue() - clock_.Now());
    exchanges_->RunDue();
  }
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_EQ(SentBytes(), 16u);
  Answer(absl::OkStatus());
  EXPECT_EQ(outcomes_, std::vector<PushOutcome>{PushOutcome::kAccepted});
}

TEST_F(RemoteExchangesTest,
       WithoutRoomForTooLongAnExchangeEndsBusyAndTheNextOneOfTheStepAsksFirst) {
  Push();
  Answer(absl::OkStatus(), v1::PUSH_OUTCOME_BUSY);
  exchanges_->RunDue();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(calls_.size(), 1u) << i;
    EXPECT_EQ(SentBytes(), 0u) << i;
    clock_.Advance(VariableStore::kBusyPatience);
    AnswerRoom(false);
    EXPECT_EQ(outcomes_, std::vector<PushOutcome>(i + 1, PushOutcome::kBusy));
    Push();
  }
}

// More slices at one ps than a connection carries calls, each in a group of its own.
class ManyExchangesTest : public RemoteExchangesTest {
 protected:
  static constexpr int kMore = 12;
  static constexpr int kAll = RemoteExchanges::kMaxCallsOfPs + kMore;

  ManyExchangesTest() {
    std::vector<v1::VariableSpec> specs(kAll);
    RemoteExchanges::Options options;
    for (int i = 0; i < kAll; ++i) {
      specs[i].set_name("v" + std::to_string(i));
      specs[i].add_shape(4);
      specs[i].set_dtype(v1::DATA_TYPE_FLOAT32);
      specs[i].set_update(v1::UPDATE_KIND_OPTIMIZER);
      options.groups.push_back({0, {static_cast<uint32_t>(i)}, 16, true});
    }
    options.connect = [this](const std::string&) {
      return std::make_unique<ScriptedChannel>(&calls_);
    };
    many_ = std::make_unique<RemoteExchanges>(SliceTable::Create(specs, 64).value(),
                                              std::move(options), &clock_, [] {});
    many_->SetView({1, 1, 1, {"ps"}, {1}});
  }
  ~ManyExchangesTest() override {
    many_->Close();
    many_->RunDue();
    while (!calls_.empty()) Answer(absl::CancelledError("closed"));
    many_->RunDue();
    EXPECT_TRUE(many_->is_idle());
  }

  void StartAll(uint64_t lineage, int count = kAll) {
    for (int i = 0; i < count; ++i) {
      Exchange exchange;
      exchange.group = static_cast<uint32_t>(i);
      exchange.lineage = lineage;
      exchange.push = true;
      exchange.push_data = push_data_;
      many_->Start(exchange, [this, i](const ExchangeResult&) { ended_.push_back(i); });
    }
  }

  std::vector<int> ended_;  // The groups whose exchanges have ended.
  std::unique_ptr<RemoteExchanges> many_;
};

TEST_F(ManyExchangesTest, MoreExchangesThanAConnectionCarriesWaitHereInOrder) {
  StartAll(1);
  for (int i = 0; i < kMore; ++i) {
    EXPECT_EQ(calls_.size(), static_cast<size_t>(RemoteExchanges::kMaxCallsOfPs));
    Answer(absl::OkStatus());
    many_->RunDue();
  }
  while (!calls_.empty()) Answer(absl::OkStatus());
  ASSERT_EQ(ended_.size(), static_cast<size_t>(kAll));
  for (int i = 0; i < kAll; ++i) EXPECT_EQ(ended_[i], i);
}

// The calls of the old lineage end before the thread of RunDue ends those that waited. If one of
// these got the place of a call that has ended, nobody would send the calls of the new lineage.
TEST_F(ManyExchangesTest, ExchangesOfAnOldLineageThatWaitDoNotTakeThePlacesOfTheNewOnes) {
  StartAll(1);
  many_->SetView({1, 2, 2, {"ps"}, {1}});
  constexpr int kNew = RemoteExchanges::kMaxCallsOfPs;
  StartAll(2, kNew);
  for (int i = 0; i < RemoteExchanges::kMaxCallsOfPs; ++i) Answer(absl::CancelledError("cut off"));
  EXPECT_TRUE(calls_.empty());
  many_->RunDue();
  EXPECT_EQ(ended_.size(), static_cast<size_t>(kAll));
  EXPECT_EQ(calls_.size(), static_cast<size_t>(kNew));
}

// In SYNC, each exchange pushes to a group and pulls its next version, for which the ps parks the
// call. With clipping no version comes before all contributions.
class ParkedExchangesTest : public ManyExchangesTest {
 protected:
  static constexpr size_t kMaxCalls = RemoteExchanges::kMaxCallsOfPs;
  static constexpr size_t kMaxParked = RemoteExchanges::kMaxParkedCallsOfPs;
  static constexpr size_t kNumGroups = kAll;

  void StartAllParked(uint64_t lineage) {
    for (size_t i = 0; i < kNumGroups; ++i) {
      Exchange exchange;
      exchange.group = static_cast<uint32_t>(i);
      exchange.lineage = lineage;
      exchange.push = true;
      exchange.push_data = push_data_;
      exchange.pull = true;
      exchange.pull_version = 1;
      exchange.pull_data = pull_data_;
      exchange.park = absl::Seconds(2);
      many_->Start(exchange, [this](const ExchangeResult& result) {
        ends_.push_back(result.status);
        if (result.outcomes[0] == PushOutcome::kAccepted && result.pulls[0].has_value) ++complete_;
      });
    }
  }

  static v1::ExchangeRequest RequestOf(const BulkCall& call) {
    v1::ExchangeRequest request;
    EXPECT_TRUE(request.ParseFromString(call.header));
    return request;
  }

  size_t NumParked() const {
    size_t parked = 0;
    for (const BulkCall* call : calls_) parked += RequestOf(*call).park_milliseconds() > 0 ? 1 : 0;
    return parked;
  }

  // Answers the oldest call that the ps parks or does not park, if there is one: contributions with
  // `outcome`, pulls with their version, questions with `has_room`.
  bool AnswerOne(bool parked, v1::PushOutcome outcome = v1::PUSH_OUTCOME_ACCEPTED,
                 bool has_room = false) {
    EXPECT_LE(calls_.size(), kMaxCalls);
    EXPECT_LE(NumParked(), kMaxParked);
    for (size_t i = 0; i < calls_.size(); ++i) {
      BulkCall* const call = calls_[i];
      const v1::ExchangeRequest request = RequestOf(*call);
      if ((request.park_milliseconds() > 0) != parked) continue;
      calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(i));
      v1::ExchangeResponse response;
      response.set_has_room(has_room);
      for (const v1::ExchangeRequest::Push& push : request.pushes()) {
        response.add_outcomes(outcome);
        if (!request.asks_for_room()) ++pushes_of_slice_[push.slice()];
      }
      PayloadReader payload;
      for (const uint32_t slice : request.pulls()) {
        v1::ExchangeResponse::Pull* const pull = response.add_pulls();
        pull->set_slice(slice);
        pull->set_version(1);
        pull->set_value_version(1);
        pull->set_payload_bytes(sizeof(gradient_));
        payload.Append(reinterpret_cast<const char*>(gradient_), sizeof(gradient_));
      }
      call->OnReply(absl::OkStatus(), response.SerializeAsString(), &payload);
      many_->RunDue();
      return true;
    }
    return false;
  }

  float values_[4] = {};
  float* const pull_data_[1] = {values_};
  size_t complete_ = 0;  // Exchanges that were accepted and have the next version.
  std::map<uint32_t, int> pushes_of_slice_;
};

TEST_F(ParkedExchangesTest, AllContributionsAreSentBeforeAnyParkedCallEnds) {
  StartAllParked(1);
  while (AnswerOne(/*parked=*/false)) {
  }
  EXPECT_EQ(NumParked(), kMaxParked);
  EXPECT_EQ(calls_.size(), kMaxParked);
  EXPECT_TRUE(ends_.empty());
  std::set<uint32_t> pushed;
  for (const auto& [slice, times] : pushes_of_slice_) pushed.insert(slice);
  for (const BulkCall* call : calls_) {
    const v1::ExchangeRequest request = RequestOf(*call);
    for (const v1::ExchangeRequest::Push& push : request.pushes()) pushed.insert(push.slice());
  }
  EXPECT_EQ(pushed.size(), kNumGroups);
  while (AnswerOne(/*parked=*/true)) {
  }
  EXPECT_EQ(complete_, kNumGroups);
  EXPECT_EQ(many_->RunDue(), absl::InfiniteFuture());
  ASSERT_EQ(pushes_of_slice_.size(), kNumGroups);
  for (const auto& [slice, times] : pushes_of_slice_) EXPECT_EQ(times, 1) << slice;
}

TEST_F(ParkedExchangesTest, AQuestionForRoomThatFindsNoPlaceDoesNotWaitAtThePs) {
  StartAllParked(1);
  // The ps has no room for the contributions that were sent without a pull.
  for (size_t i = kMaxParked; i < kMaxCalls; ++i) {
    AnswerOne(/*parked=*/false, v1::PUSH_OUTCOME_BUSY);
  }
  EXPECT_EQ(NumParked(), kMaxParked);
  ASSERT_EQ(calls_.size(), kMaxCalls);
  for (size_t i = kMaxParked; i < kMaxCalls; ++i) {
    EXPECT_TRUE(RequestOf(*calls_[i]).asks_for_room()) << i;
  }
  pushes_of_slice_.clear();
  while (AnswerOne(/*parked=*/false, v1::PUSH_OUTCOME_ACCEPTED, /*has_room=*/true)) {
  }
  EXPECT_EQ(pushes_of_slice_.size(), kNumGroups - kMaxParked);
  EXPECT_TRUE(ends_.empty());
  while (AnswerOne(/*parked=*/true)) {
  }
  EXPECT_EQ(complete_, kNumGroups);
}

TEST_F(ParkedExchangesTest, AContributionThatIsNotTakenDoesNotWaitForAPlaceToPull) {
  StartAllParked(1);
  while (AnswerOne(/*parked=*/false, v1::PUSH_OUTCOME_WITHHELD)) {
  }
  EXPECT_EQ(calls_.size(), kMaxParked);
  EXPECT_EQ(ends_.size(), kNumGroups - kMaxParked);
}

TEST_F(ParkedExchangesTest, ARollbackEndsWhatWaitsForAPlaceAndFreesAllPlaces) {
  for (uint64_t lineage = 1; lineage <= 3; ++lineage) {
    ends_.clear();
    StartAllParked(lineage);
    // Some have pushed and wait for a place to pull, others wait to push.
    AnswerOne(/*parked=*/false);
    AnswerOne(/*parked=*/false);
    many_->SetView({1, lineage + 1, lineage + 1, {"ps"}, {1}});
    while (!calls_.empty()) Answer(absl::CancelledError("cut off"));
    many_->RunDue();
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(ends_.size(), kNumGroups);
    for (const absl::Status& end : ends_) EXPECT_TRUE(absl::IsAborted(end)) << end;
  }
}

TEST_F(ParkedExchangesTest, APsThatIsLostWhileContributionsWaitGetsAllOfThemWhenItIsBack) {
  StartAllParked(1);
  AnswerOne(/*parked=*/false);
  many_->SetView({1, 2, 1, {""}, {0}});
  while (!calls_.empty()) Answer(absl::UnavailableError("cut off"));
  many_->RunDue();
  EXPECT_TRUE(calls_.empty());
  EXPECT_TRUE(ends_.empty());
  many_->SetView({1, 3, 1, {"ps"}, {2}});
  many_->RunDue();
  EXPECT_EQ(calls_.size(), kMaxCalls);
  while (AnswerOne(/*parked=*/false)) {
  }
  while (AnswerOne(/*parked=*/true)) {
  }
  EXPECT_EQ(complete_, kNumGroups);
}

TEST_F(RemoteExchangesTest, ADamagedHeaderIsSentAgainAndCountsAsDamage) {
  Push();
  const auto send_again = [this] {
    clock_.Advance(exchanges_->RunDue() - clock_.Now());
    exchanges_->RunDue();
    ASSERT_EQ(calls_.size(), 1u);
  };
  for (int i = 0; i < 7; ++i) {
    Answer(absl::DataLossError("bulk message: the header arrived damaged"));
    ASSERT_TRUE(ends_.empty()) << i;
    send_again();
  }
  Answer(absl::OkStatus());
  EXPECT_EQ(ends_, std::vector<absl::Status>{absl::OkStatus()});
  Push();
  for (int i = 0; i < 4; ++i) {
    Answer(absl::OkStatus(), v1::PUSH_OUTCOME_CORRUPT);
    send_again();
  }
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(ends_.size(), 1u) << i;
    if (i > 0) send_again();
    Answer(absl::DataLossError("bulk message: the header arrived damaged"));
  }
  ASSERT_EQ(ends_.size(), 2u) << "four payloads and four headers were damaged";
  EXPECT_TRUE(absl::IsDataLoss(ends_[1]));
}

TEST_F(RemoteExchangesTest, ANewLineageCancelsWhatIsUnderWay) {
  Push();
  exchanges_->SetView({1, 2, 2, {"ps"}, {1}});
  EXPECT_EQ(channel_->cancelled, calls_);
  Answer(absl::CancelledError("cut short"));
  exchanges_->RunDue();
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(ends_[0]));
}

TEST_F(RemoteExchangesTest, ALinkIsProvenByAnyAnswerAndSilentSinceTheFirstAttemptWithoutOne) {
  const absl::Time start = clock_.Now();
  std::vector<RemoteExchanges::Link> links = exchanges_->CheckLinks();
  ASSERT_EQ(links.size(), 1u);
  EXPECT_FALSE(links[0].is_proven);
  for (int i = 0; i < 5; ++i) {
    exchanges_->RunDue();
    ASSERT_EQ(calls_.size(), 1u);  // One question at a time.
    clock_.Advance(absl::Seconds(3));
    Answer(absl::DeadlineExceededError("nobody answers"));
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(exchanges_->CheckLinks()[0].silent_since, start);
  }
  // A contribution is refused there, so the ps is there.
  Push();
  exchanges_->RunDue();
  ASSERT_EQ(calls_.size(), 2u);
  std::swap(calls_[0], calls_[1]);
  Answer(absl::AbortedError("moved"));
  links = exchanges_->CheckLinks();
  EXPECT_TRUE(links[0].is_proven);
  EXPECT_EQ(links[0].silent_since, absl::InfiniteFuture());
  // Another process has to prove itself.
  exchanges_->SetView({1, 1, 2, {"ps"}, {2}});
  EXPECT_FALSE(exchanges_->CheckLinks()[0].is_proven);
}

TEST_F(RemoteExchangesTest, APsThatAnswersUnavailableIsNotSilent) {
  Push();
  clock_.Advance(absl::Seconds(1));
  Answer(absl::UnavailableError("incarnation 7 is not known here yet"), v1::PUSH_OUTCOME_ACCEPTED,
         /*is_answered=*/true);
  EXPECT_TRUE(exchanges_->CheckLinks()[0].is_proven);
  EXPECT_EQ(exchanges_->CheckLinks()[0].silent_since, absl::InfiniteFuture());
  EXPECT_TRUE(ends_.empty());
}

TEST_F(RemoteExchangesTest, APsThatHasAnsweredIsNotAskedAgain) {
  Push();
  Answer(absl::OkStatus());
  EXPECT_TRUE(exchanges_->CheckLinks()[0].is_proven);
  exchanges_->RunDue();
  EXPECT_TRUE(calls_.empty());
  clock_.Advance(absl::Seconds(1));
  Push();
  const absl::Time sent = clock_.Now();
  clock_.Advance(absl::Seconds(2));
  Answer(absl::UnavailableError("cut off"));
  EXPECT_EQ(exchanges_->CheckLinks()[0].silent_since, sent);
  // An attempt that fails now, and one after it that was answered before.
  clock_.Advance(absl::Seconds(2));
  exchanges_->RunDue();
  Push();
  ASSERT_EQ(calls_.size(), 2u);
  std::swap(calls_[0], calls_[1]);
  clock_.Advance(absl::Seconds(1));
  Answer(absl::OkStatus());
  const absl::Time answered = clock_.Now();
  clock_.Advance(absl::Seconds(4));
  Answer(absl::DeadlineExceededError("it was lost"));
  EXPECT_EQ(exchanges_->CheckLinks()[0].silent_since, answered);
}

}  // namespace
}  // namespace shoal
