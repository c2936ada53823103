#include "worker/prediction/predict_input.h"

#include <errno.h>
#include <sys/syscall.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(PredictInputTest, AFolderThatCannotBeSeenNowIsNotAWrongName) {
  EXPECT_THAT(OpenInput({}, "/nowhere", DataRules()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its name must end in")));
  RunWithFailingCall(SYS_newfstatat, ESTALE, [] {
    EXPECT_THAT(OpenInput({}, "/nowhere", DataRules()), StatusIs(absl::StatusCode::kUnavailable));
  });
}

TEST(PredictInputTest, AnArrayOfIdsThatIsMissingLiesBesideTheOthers) {
  v1::DataConfig config;
  config.set_format(v1::DataConfig::FORMAT_NPY);
  config.add_ids()->set_column("item");
  config.add_ids()->set_column("ad");
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  const std::string file = ::testing::TempDir() + "/item_new.npy";
  std::ofstream(file) << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << "\n"
                      << std::string(16, '\0');
  EXPECT_THAT(OpenInput(config, file, DataRules()),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("--input: cannot open "),
                             EndsWith("/ad_new.npy: No such file or directory; put it beside the "
                                      "other arrays"))));
}

}  // namespace
}  // namespace shoal
