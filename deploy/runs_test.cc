// Every run file that ships is valid.
#include <string>

#include "gtest/gtest.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

class RunsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RunsTest, IsValid) {
  absl::StatusOr<v1::RunConfig> run =
      LoadRunConfig(std::string("deploy/runs/") + GetParam() + ".textproto");
  ASSERT_TRUE(run.ok()) << run.status();
  ResolveDefaults(kTrainTaskCounts, &*run);
  EXPECT_EQ(ValidateRunConfig(*run), absl::OkStatus());
  EXPECT_EQ(run->name(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shipped, RunsTest,
                         ::testing::Values("benchmark_mlp", "clicks_dlrm", "fashion_cnn",
                                           "fashion_folder", "fashion_mobilenet", "fashion_mlp",
                                           "own_clicks", "seed_mlp"));

}  // namespace
}  // namespace shoal
