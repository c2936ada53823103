#include "deploy/launch/gpu_line.h"

#include <fstream>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(GpuLineTest, IsAmongTheFirstLinesOfThisStart) {
  const std::string path = ::testing::TempDir() + "/worker-0.log";
  GpuLine found = FindGpuLine(path + ".none", 0);
  EXPECT_EQ(found.text, "");
  EXPECT_TRUE(found.may_come);
  const std::string before =
      "I 10:00:00.000 worker/0 worker_task.cc:1] GPUs: of an earlier start\n";
  std::ofstream log(path);
  log << before << "a model may print\n" << std::flush;
  found = FindGpuLine(path, before.size());
  EXPECT_EQ(found.text, "");
  EXPECT_TRUE(found.may_come);
  log << "I 10:00:01.000 worker/0 worker_task.cc:1] GPUs: none; this" << std::flush;
  EXPECT_EQ(FindGpuLine(path, before.size()).text, "") << "half a line";
  log << " program has no CUDA\nmore\n" << std::flush;
  EXPECT_EQ(FindGpuLine(path, before.size()).text, "GPUs: none; this program has no CUDA");
}

TEST(GpuLineTest, IsNotLookedForInALongLog) {
  const std::string path = ::testing::TempDir() + "/worker-1.log";
  std::ofstream log(path);
  for (int i = 0; i < 200; ++i) log << "a line of another program\n";
  log << std::flush;
  const GpuLine found = FindGpuLine(path, 0);
  EXPECT_EQ(found.text, "");
  EXPECT_FALSE(found.may_come);
}

}  // namespace
}  // namespace shoal
