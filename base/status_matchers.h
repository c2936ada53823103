// Matchers and assertions for absl::Status and absl::StatusOr, named as Abseil's later ones.
//
//   EXPECT_OK(store.Apply(push));
//   EXPECT_THAT(Load(path), IsOkAndHolds(SizeIs(3)));
//   EXPECT_THAT(Load("x"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("x")));
//   ASSERT_OK_AND_ASSIGN(const Shape shape, ParseShape("[2,3]"));
#ifndef SHOAL_BASE_STATUS_MATCHERS_H_
#define SHOAL_BASE_STATUS_MATCHERS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_macros.h"

namespace shoal {
namespace internal {

inline const absl::Status& MatchedStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& MatchedStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

}  // namespace internal

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  *result_listener << internal::MatchedStatus(arg).ToString();
  return arg.ok();
}

MATCHER_P(IsOkAndHolds, value_matcher,
          negation ? "is not OK with the expected value" : "is OK with the expected value") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(value_matcher, *arg, result_listener);
}

MATCHER_P2(StatusIs, code, message_matcher,
           absl::StatusCodeToString(code) + " with a message that " +
               ::testing::DescribeMatcher<std::string>(message_matcher, negation)) {
  const absl::Status& status = internal::MatchedStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code && ::testing::Matches(::testing::SafeMatcherCast<std::string>(
                                      message_matcher))(std::string(status.message()));
}

template <typename Code>
auto StatusIs(Code code) {
  return StatusIs(code, ::testing::_);
}

}  // namespace shoal

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::shoal::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::shoal::IsOk())

#define ASSERT_OK_AND_ASSIGN(target, expression) \
  SHOAL_ASSERT_OK_AND_ASSIGN_IMPL(SHOAL_CONCAT(shoal_status_or_, __LINE__), target, expression)

#define SHOAL_ASSERT_OK_AND_ASSIGN_IMPL(result, target, expression) \
  auto result = (expression);                                       \
  ASSERT_THAT(result, ::shoal::IsOk());                             \
  SHOAL_STRIP_PARENTHESES(target) = *std::move(result)

#endif  // SHOAL_BASE_STATUS_MATCHERS_H_
