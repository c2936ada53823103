#include "base/status_macros.h"

#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

absl::Status Check(const absl::Status& status, int* reached) {
  RETURN_IF_ERROR(status);
  ++*reached;
  return absl::OkStatus();
}

TEST(ReturnIfErrorTest, ErrorIsReturnedAndOkContinues) {
  int reached = 0;
  EXPECT_EQ(Check(absl::DataLossError("torn"), &reached), absl::DataLossError("torn"));
  EXPECT_EQ(reached, 0);
  EXPECT_TRUE(Check(absl::OkStatus(), &reached).ok());
  EXPECT_EQ(reached, 1);
}

absl::StatusOr<int> Twice(absl::StatusOr<std::unique_ptr<int>> input) {
  ASSIGN_OR_RETURN(std::unique_ptr<int> value, std::move(input));
  ASSIGN_OR_RETURN(const int same, absl::StatusOr<int>(*value));
  return same * 2;
}

TEST(AssignOrReturnTest, MovesTheValueOut) { EXPECT_EQ(*Twice(std::make_unique<int>(21)), 42); }

TEST(AssignOrReturnTest, ErrorIsReturned) {
  EXPECT_EQ(Twice(absl::NotFoundError("no")).status(), absl::NotFoundError("no"));
}

absl::StatusOr<int> Size(absl::StatusOr<std::map<int, int>> input) {
  ASSIGN_OR_RETURN((std::map<int, int> map), std::move(input));
  return static_cast<int>(map.size());
}

TEST(AssignOrReturnTest, TypeWithACommaGoesInParentheses) {
  EXPECT_EQ(*Size(std::map<int, int>{{1, 2}}), 1);
}

}  // namespace
}  // namespace shoal
