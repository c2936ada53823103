#include "runtime/rpc/retry.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/fake_clock.h"

namespace shoal {
namespace {

TEST(BackoffTest, WaitsGrowToTheLongestAndStayWithinHalf) {
  Backoff backoff(7, absl::Milliseconds(100), absl::Milliseconds(400));
  for (const int full : {100, 200, 400, 400, 400}) {
    const absl::Duration wait = backoff.Next();
    EXPECT_LE(wait, absl::Milliseconds(full));
    EXPECT_GE(wait, absl::Milliseconds(full) / 2);
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, SeedsDrawDifferentWaits) { EXPECT_NE(Backoff(1).Next(), Backoff(2).Next()); }

TEST(RetryTest, OnlyUnknownOutcomesAreRepeated) {
  RealClock clock;
  Retry retry(&clock);
  int calls = 0;
  const Backoff fast(1, absl::Milliseconds(1), absl::Milliseconds(1));
  EXPECT_TRUE(
      retry
          .Run(absl::Seconds(5), fast,
               [&] { return ++calls < 4 ? absl::UnavailableError("down") : absl::OkStatus(); })
          .ok());
  EXPECT_EQ(calls, 4);
  const absl::Status status = retry.Run(absl::Seconds(5), fast, [&] {
    ++calls;
    return absl::FailedPreconditionError("other run");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(calls, 5);
}

TEST(RetryTest, PatienceEndsWithTheLastStatus) {
  RealClock clock;
  Retry retry(&clock);
  const absl::Status status = retry.Run(absl::Milliseconds(20), Backoff(1, absl::Milliseconds(5)),
                                        [] { return absl::DeadlineExceededError("slow"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(RetryTest, ACallThatThePeerCancelsIsNotAStop) {
  RealClock clock;
  Retry retry(&clock);
  const absl::Status status = retry.Run(absl::Milliseconds(20), Backoff(1, absl::Milliseconds(5)),
                                        [] { return absl::CancelledError("the server ends"); });
  EXPECT_EQ(status, absl::UnavailableError("the server ends"));
}

TEST(RetryTest, StopEndsTheWait) {
  FakeClock clock;  // Never moves: without Stop the wait would not end.
  Retry retry(&clock);
  std::thread stopper;
  const absl::Status status =
      retry.Run(absl::InfiniteDuration(), Backoff(1), [&]() -> absl::Status {
        if (!stopper.joinable()) stopper = std::thread([&] { retry.Stop(); });
        return absl::UnavailableError("down");
      });
  stopper.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace shoal
