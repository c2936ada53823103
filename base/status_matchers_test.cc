#include "base/status_matchers.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusMatchersTest, IsOkDistinguishesOkFromError) {
  EXPECT_OK(absl::OkStatus());
  EXPECT_OK(absl::StatusOr<int>(1));
  EXPECT_THAT(absl::DataLossError("torn"), Not(IsOk()));
  EXPECT_THAT(absl::StatusOr<int>(absl::DataLossError("torn")), Not(IsOk()));
}

TEST(StatusMatchersTest, IsOkAndHoldsMatchesTheValue) {
  EXPECT_THAT(absl::StatusOr<int>(1), IsOkAndHolds(1));
  EXPECT_THAT(absl::StatusOr<int>(1), Not(IsOkAndHolds(2)));
  EXPECT_THAT(absl::StatusOr<int>(absl::DataLossError("torn")), Not(IsOkAndHolds(1)));
  EXPECT_THAT(absl::StatusOr<std::string>("abc"), IsOkAndHolds(HasSubstr("b")));
}

TEST(StatusMatchersTest, StatusIsMatchesCodeAndMessage) {
  const absl::Status torn = absl::DataLossError("torn page");
  EXPECT_THAT(torn, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(torn, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("page")));
  EXPECT_THAT(torn, Not(StatusIs(absl::StatusCode::kDataLoss, "page")));
  EXPECT_THAT(torn, Not(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(absl::StatusOr<int>(torn), StatusIs(absl::StatusCode::kDataLoss, "torn page"));
}

TEST(StatusMatchersTest, AssignMovesTheValueOut) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> value,
                       absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(3)));
  EXPECT_EQ(*value, 3);
}

}  // namespace
}  // namespace shoal
