#include "worker/program/program_gpus.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProgramGpusTest, CudaVisibleDevicesLimitsTheGpusOfTheMachine) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  EXPECT_THAT(GpusHere(*files, "2, 0"), ElementsAre("2", "0"));
  EXPECT_THAT(GpusHere(*files, "GPU-8a,MIG-1,-1,3"), ElementsAre("GPU-8a", "MIG-1"));
  for (const char* none : {"", "-1", "NoDevFiles"}) EXPECT_THAT(GpusHere(*files, none), IsEmpty());
  const std::string devices = ::testing::TempDir() + "/devices";
  EXPECT_THAT(GpusHere(*files, nullptr, devices), IsEmpty());
  ASSERT_OK(files->MakeDirectory(devices));
  for (const char* name : {"nvidia3", "nvidia7", "nvidiactl", "nvidia-uvm", "null"}) {
    ASSERT_OK(WriteAtomically(*files, devices + "/" + name, ""));
  }
  EXPECT_THAT(GpusHere(*files, nullptr, devices), ElementsAre("0", "1"));
}

TEST(ProgramGpusTest, TheProgramsOfAHostGetOneEach) {
  v1::DeploymentOptions deployment;
  LocalWorker worker;
  const auto get = [&](uint32_t index, std::vector<std::string> gpus, uint32_t num_workers = 4) {
    worker.index = index;
    return GpusOfProgram(deployment, worker, num_workers, gpus).value_or("all");
  };
  EXPECT_EQ(get(0, {"4", "GPU-8a"}), "4");
  EXPECT_EQ(get(1, {"4", "GPU-8a"}), "GPU-8a");
  EXPECT_EQ(get(2, {"4", "GPU-8a"}), "4");  // More programs than GPUs.
  EXPECT_EQ(get(1, {"4", "GPU-8a"}, 0), "GPU-8a");
  EXPECT_EQ(get(0, {"4", "GPU-8a"}, 1), "all");
  EXPECT_EQ(get(1, {"4"}), "all");
  EXPECT_EQ(get(1, {}), "all");
  worker.has_own_gpus = true;
  EXPECT_EQ(get(1, {"4", "GPU-8a"}), "all");
  EXPECT_EQ(GpusOfProgram(deployment, std::nullopt, 4, {"0", "1"}), std::nullopt);
  deployment.set_clone_on_cpu(true);
  EXPECT_EQ(get(1, {}), "-1");
}

}  // namespace
}  // namespace shoal
