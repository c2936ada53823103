#include "runtime/exchange/exchange_attempts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "proto/v1/bulk.pb.h"
#include "proto/v1/identity.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

class NoCall : public BulkCall {
 public:
  void OnReply(const absl::Status&, absl::string_view, PayloadReader*) override {}
};

// One slice that is pulled, and pushed where a test wants it.
class ExchangeAttemptsTest : public testing::Test {
 protected:
  static SliceTable OneSlice() {
    v1::VariableSpec spec;
    spec.set_name("v");
    spec.add_shape(4);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    return *SliceTable::Create({spec}, 64);
  }

  void Begin(bool push, absl::Duration park = absl::ZeroDuration()) {
    Exchange exchange;
    exchange.park = park;
    exchange.push = push;
    exchange.push_data = &pushed_;
    exchange.pull = true;
    exchange.pull_version = 7;
    exchange.pull_data = &pulled_;
    attempts_.Reset(exchange);
  }

  // The next attempt, and its reply with a value that is damaged or not.
  absl::Status Attempt(bool value_damaged, v1::PushOutcome outcome = v1::PUSH_OUTCOME_ACCEPTED) {
    NoCall call;
    attempts_.FillRequest(v1::Identity(), 1, /*with_checksums=*/true, may_park_, &call);
    EXPECT_TRUE(request_.ParseFromString(call.header));
    v1::ExchangeResponse response;
    for (int i = 0; i < request_.pushes_size(); ++i) response.add_outcomes(outcome);
    PayloadReader payload;
    for (int i = 0; i < request_.pulls_size(); ++i) {
      v1::ExchangeResponse::Pull* pull = response.add_pulls();
      pull->set_version(7);
      pull->set_value_version(7);
      pull->set_payload_bytes(sizeof(sent_));
      pull->set_crc32c(Crc32c(sent_, sizeof(sent_)) ^ (value_damaged ? 1 : 0));
      payload.Append(sent_, sizeof(sent_));
    }
    return attempts_.TakeReply(response.SerializeAsString(), &payload, true, &next_);
  }

  const SliceTable table_ = OneSlice();
  const ExchangeGroup group_ = {0, {0}, table_[0].num_bytes()};
  const float sent_[4] = {1, 2, 3, 4};
  const float gradient_[4] = {};
  float value_[4] = {};
  const void* pushed_ = gradient_;
  float* pulled_ = value_;
  ExchangeAttempts attempts_{&table_, &group_};
  ExchangeAttempts::Next next_ = ExchangeAttempts::Next::kDone;
  bool may_park_ = true;
  v1::ExchangeRequest request_;  // the last one
};

TEST_F(ExchangeAttemptsTest, ADamagedValueIsAskedForAgain) {
  Begin(/*push=*/false);
  EXPECT_EQ(Attempt(/*value_damaged=*/true), absl::OkStatus());
  EXPECT_EQ(next_, ExchangeAttempts::Next::kRetry);
  EXPECT_EQ(Attempt(/*value_damaged=*/false), absl::OkStatus());
  EXPECT_EQ(next_, ExchangeAttempts::Next::kDone);
  EXPECT_TRUE(attempts_.result(absl::OkStatus()).pulls[0].has_value);
  EXPECT_EQ(value_[3], 4);
}

TEST_F(ExchangeAttemptsTest, AValueThatStaysDamagedIsNotAskedForForEver) {
  for (const bool push : {false, true}) {
    Begin(push);
    for (int i = 0; i < 7; ++i) EXPECT_EQ(Attempt(true), absl::OkStatus());
    EXPECT_TRUE(absl::IsDataLoss(Attempt(true)));
    EXPECT_FALSE(attempts_.result(absl::OkStatus()).pulls[0].has_value);
  }
  Begin(/*push=*/false);  // Each exchange counts for itself.
  EXPECT_EQ(Attempt(true), absl::OkStatus());
}

TEST_F(ExchangeAttemptsTest, AContributionThatStaysDamagedKeepsThatOutcome) {
  Begin(/*push=*/true);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(Attempt(false, v1::PUSH_OUTCOME_CORRUPT), absl::OkStatus());
    EXPECT_EQ(next_, ExchangeAttempts::Next::kRetry);
  }
  EXPECT_EQ(Attempt(false, v1::PUSH_OUTCOME_CORRUPT), absl::OkStatus());
  EXPECT_EQ(next_, ExchangeAttempts::Next::kDone);
  EXPECT_EQ(attempts_.result(absl::OkStatus()).outcomes[0], PushOutcome::kCorrupt);
}

TEST_F(ExchangeAttemptsTest, AContributionGoesAheadOfAPullThatTheStoreMayNotPark) {
  using Parking = ExchangeAttempts::Parking;
  for (const v1::PushOutcome outcome :
       {v1::PUSH_OUTCOME_ACCEPTED, v1::PUSH_OUTCOME_DUPLICATE, v1::PUSH_OUTCOME_WITHHELD}) {
    Begin(/*push=*/true, absl::Seconds(2));
    EXPECT_EQ(attempts_.parking(), Parking::kOptional);
    may_park_ = false;
    EXPECT_EQ(Attempt(/*value_damaged=*/false, outcome), absl::OkStatus());
    EXPECT_EQ(request_.pushes_size(), 1);
    EXPECT_EQ(request_.pulls_size(), 0);
    EXPECT_EQ(request_.park_milliseconds(), 0u);
    EXPECT_EQ(next_, ExchangeAttempts::Next::kSend);
    // The caller has to act first on a contribution that was not taken.
    const bool is_taken = outcome != v1::PUSH_OUTCOME_WITHHELD;
    EXPECT_EQ(attempts_.parking(), is_taken ? Parking::kAlways : Parking::kNever);
    may_park_ = is_taken;
    EXPECT_EQ(Attempt(/*value_damaged=*/false), absl::OkStatus());
    EXPECT_EQ(request_.pushes_size(), 0);
    EXPECT_EQ(request_.pulls_size(), 1);
    EXPECT_EQ(request_.park_milliseconds(), is_taken ? 2000u : 0u);
    EXPECT_EQ(next_, ExchangeAttempts::Next::kDone);
  }
}

TEST_F(ExchangeAttemptsTest, AQuestionForRoomNeedNotWaitAtThePs) {
  Begin(/*push=*/true, absl::Seconds(2));
  attempts_.AskForRoom(absl::Seconds(5));
  for (const bool may_park : {true, false}) {
    EXPECT_EQ(attempts_.parking(), ExchangeAttempts::Parking::kOptional);
    may_park_ = may_park;
    EXPECT_EQ(Attempt(/*value_damaged=*/false), absl::OkStatus());
    EXPECT_TRUE(request_.asks_for_room());
    EXPECT_EQ(request_.park_milliseconds(), may_park ? 5000u : 0u);
    EXPECT_EQ(next_, ExchangeAttempts::Next::kNoRoom);
  }
}

// A batch with 5000 rows of each of 8 buckets: three buckets fit into one message, except for one
// bucket, which exceeds it alone.
class RowsInPartsTest : public testing::Test {
 protected:
  static constexpr uint32_t kBuckets = 8;
  static constexpr uint32_t kRows = 5000;
  static constexpr uint64_t kDim = 64;
  static constexpr uint32_t kLarge = 5;  // the bucket with four times as many rows

  RowsInPartsTest() {
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      const uint32_t rows = bucket == kLarge ? 4 * kRows : kRows;
      keys_.emplace_back(rows, bucket);
      values_.emplace_back(rows * kDim);
      payloads_.emplace_back(rows * (8 + kDim * 4), 'g');
    }
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      pulls_.push_back({keys_[bucket].data(), static_cast<uint32_t>(keys_[bucket].size()),
                        values_[bucket].data()});
      push_data_.push_back(payloads_[bucket].data());
      push_bytes_.push_back(payloads_[bucket].size());
      push_kinds_.push_back(ContributionKind::kRows);
    }
  }

  static SliceTable Buckets() {
    v1::VariableSpec spec;
    spec.set_name("item");
    spec.add_shape(kDim);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    spec.mutable_table()->set_buckets(kBuckets);
    return *SliceTable::Create({spec}, 64);
  }

  static ExchangeGroup GroupOf(const SliceTable& table) {
    ExchangeGroup group;
    for (uint32_t slice = 0; slice < table.size(); ++slice) group.slices.push_back(slice);
    group.buckets = true;
    return group;
  }

  void Begin(bool push, bool pull) {
    Exchange exchange;
    exchange.push = push;
    exchange.push_data = push_data_.data();
    exchange.push_bytes = push_bytes_.data();
    exchange.push_kinds = push_kinds_.data();
    exchange.pull = pull;
    exchange.pull_version = 7;
    exchange.pull_rows = pulls_.data();
    exchange.park = absl::Seconds(1);
    attempts_.Reset(exchange);
    pushed_.clear();
    pulled_.clear();
  }

  // Sends the next request to a ps that accepts all contributions, or answers with `outcome`, and
  // has the version up to the bucket `last`.
  ExchangeAttempts::Next Attempt(uint32_t last = kBuckets,
                                 v1::PushOutcome outcome = v1::PUSH_OUTCOME_ACCEPTED) {
    NoCall call;
    attempts_.FillRequest(v1::Identity(), 1, /*with_checksums=*/false, /*may_park=*/true, &call);
    v1::ExchangeRequest request;
    EXPECT_TRUE(request.ParseFromString(call.header));
    park_ = request.park_milliseconds();
    uint64_t bytes = 0;
    for (const PayloadRef& payload : call.payloads) bytes += payload.bytes;
    v1::ExchangeResponse response;
    bool has_large = false;
    for (const v1::ExchangeRequest::Push& push : request.pushes()) {
      response.add_outcomes(outcome);
      pushed_.push_back(push.slice());
      has_large = has_large || push.slice() == kLarge;
    }
    // Rows are pulled after all contributions were sent.
    EXPECT_TRUE(request.pulls_size() == 0 || pushed_.size() == kBuckets || pushed_.empty());
    uint64_t reply_bytes = 0;
    PayloadReader payload;
    const std::vector<float> value(4 * kRows * kDim, 3);
    for (const uint32_t slice : request.pulls()) {
      v1::ExchangeResponse::Pull* const pull = response.add_pulls();
      pull->set_slice(slice);
      pull->set_version(slice < last ? 7 : 6);
      pull->set_value_version(pull->version());
      pull->set_has_value(slice < last);
      pulled_.push_back(slice);
      has_large = has_large || slice == kLarge;
      if (slice >= last) continue;
      const uint64_t of_bucket = values_[slice].size() * sizeof(float);
      pull->set_payload_bytes(static_cast<uint32_t>(of_bucket));
      payload.Append(value.data(), of_bucket);
      reply_bytes += of_bucket;
    }
    if (has_large) {
      EXPECT_EQ(std::max(request.pushes_size(), request.pulls_size()), 1);
    } else {
      EXPECT_LE(bytes, kDefaultMaxBulkPayloadBytes);
      EXPECT_LE(reply_bytes, kDefaultMaxBulkPayloadBytes);
    }
    ExchangeAttempts::Next next = ExchangeAttempts::Next::kDone;
    EXPECT_EQ(attempts_.TakeReply(response.SerializeAsString(), &payload, false, &next),
              absl::OkStatus());
    return next;
  }

  const SliceTable table_ = Buckets();
  const ExchangeGroup group_ = GroupOf(table_);
  std::vector<std::vector<uint64_t>> keys_;
  std::vector<std::vector<float>> values_;
  std::vector<std::string> payloads_;
  std::vector<RowPull> pulls_;
  std::vector<const void*> push_data_;
  std::vector<uint64_t> push_bytes_;
  std::vector<ContributionKind> push_kinds_;
  std::vector<uint32_t> pushed_, pulled_;  // slices, in the order of requests
  uint32_t park_ = 0;
  ExchangeAttempts attempts_{&table_, &group_};
};

TEST_F(RowsInPartsTest, EachPartFitsIntoAMessage) {
  Begin(/*push=*/true, /*pull=*/true);
  int requests = 1;
  for (; Attempt() == ExchangeAttempts::Next::kSend; ++requests) ASSERT_LT(requests, 20);
  // Buckets 0 to 2, 3 and 4, 5, 6 and 7, each twice; one request pushes the last and pulls the
  // first.
  EXPECT_EQ(requests, 7);
  EXPECT_EQ(pushed_, group_.slices);
  EXPECT_EQ(pulled_, group_.slices);
  EXPECT_EQ(park_, 1000u);
  const ExchangeResult result = attempts_.result(absl::OkStatus());
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    EXPECT_EQ(result.outcomes[bucket], PushOutcome::kAccepted);
    EXPECT_TRUE(result.pulls[bucket].has_value);
    EXPECT_EQ(values_[bucket].back(), 3);
  }
}

TEST_F(RowsInPartsTest, AVersionThatIsNotThereEndsThePulls) {
  Begin(/*push=*/false, /*pull=*/true);
  EXPECT_EQ(Attempt(), ExchangeAttempts::Next::kSend);
  EXPECT_EQ(Attempt(/*last=*/4), ExchangeAttempts::Next::kDone);
  EXPECT_EQ(pulled_.size(), 5u);
  EXPECT_TRUE(attempts_.result(absl::OkStatus()).pulls[3].has_value);
  EXPECT_FALSE(attempts_.result(absl::OkStatus()).pulls[4].has_value);
  EXPECT_FALSE(attempts_.result(absl::OkStatus()).pulls[7].has_value);
}

TEST_F(RowsInPartsTest, AfterAnOutcomeToActOnNoPullWaits) {
  Begin(/*push=*/true, /*pull=*/true);
  EXPECT_EQ(Attempt(kBuckets, v1::PUSH_OUTCOME_WITHHELD), ExchangeAttempts::Next::kSend);
  while (pulled_.empty()) Attempt();
  EXPECT_EQ(park_, 0u);
  EXPECT_EQ(attempts_.result(absl::OkStatus()).outcomes[0], PushOutcome::kWithheld);
  EXPECT_EQ(attempts_.result(absl::OkStatus()).outcomes[7], PushOutcome::kAccepted);
}

TEST_F(RowsInPartsTest, ABusyPsIsAskedForRoomForAllParts) {
  Begin(/*push=*/true, /*pull=*/false);
  EXPECT_EQ(Attempt(), ExchangeAttempts::Next::kSend);
  EXPECT_EQ(Attempt(kBuckets, v1::PUSH_OUTCOME_BUSY), ExchangeAttempts::Next::kRetryBusy);
  attempts_.AskForRoom(absl::Seconds(1));
  NoCall call;
  attempts_.FillRequest(v1::Identity(), 1, /*with_checksums=*/false, /*may_park=*/true, &call);
  v1::ExchangeRequest request;
  ASSERT_TRUE(request.ParseFromString(call.header));
  EXPECT_TRUE(request.asks_for_room());
  EXPECT_EQ(request.pushes_size(), 5);  // those that were not accepted
  v1::ExchangeResponse response;
  response.set_has_room(true);
  PayloadReader payload;
  ExchangeAttempts::Next next = ExchangeAttempts::Next::kDone;
  ASSERT_EQ(attempts_.TakeReply(response.SerializeAsString(), &payload, false, &next),
            absl::OkStatus());
  ASSERT_EQ(next, ExchangeAttempts::Next::kSend);
  while (Attempt() == ExchangeAttempts::Next::kSend) {
  }
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    EXPECT_EQ(attempts_.result(absl::OkStatus()).outcomes[bucket], PushOutcome::kAccepted);
  }
}

// A bucket counts as 1024 rows wherever slices are compared, here 16 MiB; two rows are pulled.
TEST(ExchangeTimeoutTest, TheTimeForBucketsIsThatOfTheRowsThatAreSent) {
  v1::VariableSpec spec;
  spec.set_name("item");
  spec.add_shape(4096);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(64);
  const SliceTable table = *SliceTable::Create({spec}, 64);
  ExchangeGroup group;
  group.buckets = true;
  for (uint32_t slice = 0; slice < table.size(); ++slice) {
    group.slices.push_back(slice);
    group.bytes += table[slice].num_bytes();
  }
  ExchangeAttempts attempts(&table, &group);
  const uint64_t keys[2] = {1, 2};
  std::vector<float> values(2 * 4096);
  std::vector<RowPull> rows(table.size());
  rows[3].keys = keys;
  rows[3].num_keys = 2;
  rows[3].values = values.data();
  Exchange exchange;
  exchange.pull = true;
  exchange.pull_version = 7;
  exchange.pull_rows = rows.data();
  for (const bool versions_only : {false, true}) {
    exchange.versions_only = versions_only;
    attempts.Reset(exchange);
    NoCall call;
    attempts.FillRequest(v1::Identity(), 1, /*with_checksums=*/false, /*may_park=*/true, &call);
    EXPECT_GE(call.timeout, absl::Seconds(2));
    EXPECT_LT(call.timeout, absl::Seconds(2) + absl::Milliseconds(10));
  }
}

}  // namespace
}  // namespace shoal
