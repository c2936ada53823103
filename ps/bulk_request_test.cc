// Sends invalid exchange requests to a ps task, over gRPC, shared memory and inside one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/crc32c.h"
#include "proto/v1/bulk.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/parameter_server.h"
#include "ps/parameter_shard.h"
#include "ps/ps_cluster_testing.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/transport/bulk_test_service.h"

namespace shoal {
namespace {

// Requests like those of a foreign sender to ps/0, which owns slices 0, 2 and 4.
class BulkRequestTest : public testing::TestWithParam<PsForm> {
 protected:
  BulkRequestTest() {
    EXPECT_EQ(cluster_.Load(1), absl::OkStatus());
    channel_ = cluster_.Connect(cluster_.servers[0]->address());
    payload_.assign(128, 0.5f);
  }

  v1::ExchangeRequest Request() const {
    v1::ExchangeRequest request;
    *request.mutable_identity() = PsLoadRequest(1, true).identity();
    request.mutable_identity()->mutable_member()->set_job(v1::JOB_WORKER);
    request.mutable_identity()->set_incarnation(kTestWorker0);
    request.set_receiver_incarnation(1);
    request.set_batch_examples(2);
    v1::ExchangeRequest::Push* push = request.add_pushes();
    push->set_slice(0);
    push->set_kind(v1::CONTRIBUTION_KIND_DENSE);
    push->set_payload_bytes(512);
    push->set_crc32c(Crc32c(payload_.data(), 512));
    request.add_pulls(0);
    return request;
  }

  // Ends with the call; the response is in response_.
  absl::Status Send(const v1::ExchangeRequest& request, size_t bytes = 512) {
    BulkTestCall call;
    request.AppendToString(&call.header);
    call.payloads = {{payload_.data(), bytes, nullptr, nullptr}};
    channel_->Start(&call);
    call.Wait();
    response_.ParseFromString(call.received_header);
    return call.status;
  }

  // A good push of the same batch is still the first one.
  void ExpectNothingChanged() {
    EXPECT_EQ(Send(Request()), absl::OkStatus());
    EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_ACCEPTED);
  }

  PsTestCluster cluster_{GetParam()};
  std::unique_ptr<BulkChannel> channel_;
  std::vector<float> payload_;
  v1::ExchangeResponse response_;
};

INSTANTIATE_TEST_SUITE_P(Forms, BulkRequestTest, AllPsForms(), PsFormName);

TEST_P(BulkRequestTest, EveryBrokenRequestIsRefusedAndChangesNothing) {
  const struct {
    const char* what;
    std::function<void(v1::ExchangeRequest*)> change;
    absl::StatusCode code;
  } cases[] = {
      {"another run", [](auto* r) { r->mutable_identity()->set_run_id("other"); },
       absl::StatusCode::kUnavailable},
      {"old term", [](auto* r) { r->mutable_identity()->set_term(0); }, absl::StatusCode::kAborted},
      {"other incarnation of the ps", [](auto* r) { r->set_receiver_incarnation(9); },
       absl::StatusCode::kAborted},
      {"other lineage", [](auto* r) { r->mutable_identity()->set_lineage(2); },
       absl::StatusCode::kAborted},
      {"no member", [](auto* r) { r->mutable_identity()->clear_member(); },
       absl::StatusCode::kInvalidArgument},
      {"slice of another ps", [](auto* r) { r->mutable_pushes(0)->set_slice(1); },
       absl::StatusCode::kInvalidArgument},
      {"no such slice", [](auto* r) { r->mutable_pushes(0)->set_slice(4'000'000'000u); },
       absl::StatusCode::kInvalidArgument},
      {"pull of no such slice", [](auto* r) { r->set_pulls(0, 77); },
       absl::StatusCode::kInvalidArgument},
      {"no kind", [](auto* r) { r->mutable_pushes(0)->clear_kind(); },
       absl::StatusCode::kInvalidArgument},
      {"no examples", [](auto* r) { r->clear_batch_examples(); },
       absl::StatusCode::kInvalidArgument},
      {"fewer examples than the batch has", [](auto* r) { r->set_batch_examples(1); },
       absl::StatusCode::kInvalidArgument},
      {"more examples than the batch has", [](auto* r) { r->set_batch_examples(1000); },
       absl::StatusCode::kInvalidArgument},
      {"more pulls than a message holds",
       [](auto* r) {
         for (int i = 0; i < 20000; ++i) r->add_pulls(0);
       },
       absl::StatusCode::kInvalidArgument},
  };
  for (const auto& one : cases) {
    v1::ExchangeRequest request = Request();
    one.change(&request);
    EXPECT_EQ(Send(request).code(), one.code) << one.what;
  }
  ExpectNothingChanged();
}

TEST_P(BulkRequestTest, WrongLengthsAreCorruptAndChangeNothing) {
  ASSERT_EQ(Send(Request(), 511), absl::OkStatus());
  EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_CORRUPT);
  v1::ExchangeRequest request = Request();
  request.mutable_pushes(0)->set_payload_bytes(256);
  request.mutable_pushes(0)->set_crc32c(Crc32c(payload_.data(), 256));
  ASSERT_EQ(Send(request, 256), absl::OkStatus());
  EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_CORRUPT);
  request.mutable_pushes(0)->set_payload_bytes(4'000'000'000u);
  ASSERT_EQ(Send(request), absl::OkStatus());
  EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_CORRUPT);
  ExpectNothingChanged();
}

TEST_P(BulkRequestTest, AWrongChecksumIsCorruptAndChangesNothing) {
  if (GetParam() != PsForm::kGrpc) return;
  v1::ExchangeRequest request = Request();
  request.mutable_pushes(0)->set_crc32c(1);
  ASSERT_EQ(Send(request), absl::OkStatus());
  EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_CORRUPT);
  ExpectNothingChanged();
}

TEST_P(BulkRequestTest, APositionThatIsNotTheBatchesIsAhead) {
  v1::ExchangeRequest request = Request();
  request.set_position(1);
  ASSERT_EQ(Send(request), absl::OkStatus());
  EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_AHEAD);
  request = Request();
  request.mutable_batch()->set_index(999);
  ASSERT_EQ(Send(request), absl::OkStatus());
  EXPECT_EQ(response_.outcomes(0), v1::PUSH_OUTCOME_AHEAD);
  ExpectNothingChanged();
}

TEST_P(BulkRequestTest, AReplacedWorkerIsFenced) {
  cluster_.servers[0]->shard()->LearnWorkers(WorkersFrom(kTestWorker0 + 1));
  const absl::Status status = Send(Request());
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_THAT(status.message(), testing::HasSubstr("fenced incarnation"));
  v1::ExchangeRequest request = Request();
  request.mutable_identity()->set_incarnation(kTestWorker0 + 1);
  ASSERT_EQ(Send(request), absl::OkStatus());
}

TEST_P(BulkRequestTest, NumbersThatTheChiefHasNotIssuedAreRefusedAndFenceNoTask) {
  const std::function<void(v1::Identity*)> changes[] = {
      [](v1::Identity* sender) { sender->set_term(uint64_t{1} << 40); },
      [](v1::Identity* sender) { sender->set_incarnation(kTestWorker0 + 1); },
      [](v1::Identity* sender) { sender->set_incarnation(UINT64_MAX); },
      [](v1::Identity* sender) {
        sender->mutable_member()->set_index(60000);
        sender->set_incarnation(1);
      },
      [](v1::Identity* sender) {
        sender->mutable_member()->set_index(1);
        sender->set_incarnation(kTestWorker0 + 2);
      },
  };
  for (const auto& change : changes) {
    v1::ExchangeRequest request = Request();
    change(request.mutable_identity());
    EXPECT_EQ(Send(request).code(), absl::StatusCode::kUnavailable) << request.ShortDebugString();
  }
  v1::ExchangeRequest other = Request();
  other.mutable_identity()->mutable_member()->set_index(1);
  other.mutable_identity()->set_incarnation(kTestWorker0 + 1);
  other.clear_pushes();
  EXPECT_EQ(Send(other, 0), absl::OkStatus());
  ExpectNothingChanged();
  EXPECT_EQ(cluster_.Load(2), absl::OkStatus()) << "the chief still commands this ps";
}

TEST_P(BulkRequestTest, GarbageIsInvalid) {
  BulkTestCall call;
  call.header = "\xff\xff\xff\xff garbage";
  channel_->Start(&call);
  call.Wait();
  EXPECT_EQ(call.status.code(), absl::StatusCode::kInvalidArgument);
  ExpectNothingChanged();
}

TEST_P(BulkRequestTest, AfterStopEverythingIsUnavailable) {
  ASSERT_TRUE(cluster_.servers[0]->Stop().ok());
  EXPECT_EQ(Send(Request()).code(), absl::StatusCode::kUnavailable);
}

TEST_P(BulkRequestTest, ALeaseThatEndsDuringACallIsUnavailableAndNoFaultOfTheCaller) {
  const v1::Identity chief = PsLoadRequest(1, true).identity();
  ReceiverRules rules(chief.run_id(), chief.term(), /*incarnation=*/1);
  rules.set_lineage(1);
  const auto asked = std::make_shared<std::atomic<int>>(0);
  // Entering is the first thing for which the lease is asked about.
  rules.LearnWorkers(WorkersFrom(kTestWorker0));
  cluster_.servers[0]->shard()->SetRules(rules, [asked] { return ++*asked != 2; });
  EXPECT_EQ(Send(Request()), absl::UnavailableError("this ps cannot reach the chief"));
  ExpectNothingChanged();
}

}  // namespace
}  // namespace shoal
