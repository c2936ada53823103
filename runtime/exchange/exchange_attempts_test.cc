#include "runtime/exchange/exchange_attempts.h"

#include <gtest/gtest.h>

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

  void Begin(bool push) {
    Exchange exchange;
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
    attempts_.FillRequest(v1::Identity(), 1, /*with_checksums=*/true, &call);
    v1::ExchangeRequest request;
    EXPECT_TRUE(request.ParseFromString(call.header));
    v1::ExchangeResponse response;
    for (int i = 0; i < request.pushes_size(); ++i) response.add_outcomes(outcome);
    PayloadReader payload;
    for (int i = 0; i < request.pulls_size(); ++i) {
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

}  // namespace
}  // namespace shoal
