#include "worker/prediction/predict_input.h"

#include <errno.h>
#include <sys/syscall.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(PredictInputTest, AFolderThatCannotBeSeenNowIsNotAWrongName) {
  EXPECT_THAT(OpenInput({}, "/nowhere", DataRules()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its name must end in")));
  RunWithFailingCall(SYS_newfstatat, ESTALE, [] {
    EXPECT_THAT(OpenInput({}, "/nowhere", DataRules()), StatusIs(absl::StatusCode::kUnavailable));
  });
}

}  // namespace
}  // namespace shoal
