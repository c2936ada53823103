#include "base/memory_limit.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

#include "base/file_system.h"

namespace shoal {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;

// A fake /proc and /sys.
class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest()
      : root_(::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    EXPECT_TRUE(RemoveTree(*files_, root_).ok());
  }

  void Write(const std::string& path, const std::string& text) {
    EXPECT_TRUE(files_->MakeDirectory(ParentDirectory(root_ + path)).ok());
    std::ofstream(root_ + path) << text;
  }
  void WriteMachine() {
    Write("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n");
    Write("/proc/self/status", "Name:\tshoal\nVmRSS:\t   10240 kB\n");
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string root_;
};

TEST_F(MemoryLimitTest, AProcessWithoutCgroupsHasTheMemoryOfTheMachine) {
  WriteMachine();
  const MemoryLimit limit = ReadMemoryLimit(root_);
  EXPECT_EQ(limit.bytes, 8192 * kMebibyte);
  EXPECT_EQ(limit.set_by, "the machine");
  EXPECT_EQ(limit.available, (4096 + 10) * kMebibyte);  // Its own memory included.
}

TEST_F(MemoryLimitTest, TheMemoryOfThisProcessAloneIsThatWithoutFiles) {
  EXPECT_EQ(ReadAnonymousMemory(root_), 0u) << "the kernel says nothing";
  Write("/proc/self/status", "VmRSS:\t   10240 kB\nRssAnon:\t    7168 kB\nRssFile:\t    2048 kB\n");
  EXPECT_EQ(ReadAnonymousMemory(root_), 7 * kMebibyte);
  EXPECT_GT(ReadAnonymousMemory(), 0u);
}

TEST_F(MemoryLimitTest, TheTightestCgroupOfVersion2Counts) {
  WriteMachine();
  Write("/proc/self/cgroup", "0::/pods/ps-0/main\n");
  Write("/sys/fs/cgroup/pods/ps-0/main/memory.max", "max\n");
  Write("/sys/fs/cgroup/pods/ps-0/memory.max", "2147483648\n");
  Write("/sys/fs/cgroup/pods/ps-0/memory.current", "1073741824\n");
  Write("/sys/fs/cgroup/pods/ps-0/memory.stat",
        "anon 5\ninactive_anon 6\ninactive_file 402653184\nactive_file 134217728\n");
  Write("/sys/fs/cgroup/pods/memory.max", "4294967296\n");
  const MemoryLimit limit = ReadMemoryLimit(root_);
  EXPECT_EQ(limit.bytes, 2048 * kMebibyte);
  EXPECT_EQ(limit.set_by, "the cgroup /pods/ps-0");
  EXPECT_EQ(limit.available, (2048 - 512 + 10) * kMebibyte);
}

TEST_F(MemoryLimitTest, AContainerSeesItsCgroupOfVersion1AtTheMount) {
  WriteMachine();
  Write("/proc/self/cgroup", "9:name=systemd:/docker/abc\n4:cpu,memory:/docker/abc\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  Write("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\ntotal_inactive_file 73400320\nactive_file 1\n"
        "total_active_file 31457280\n");
  const MemoryLimit limit = ReadMemoryLimit(root_);
  EXPECT_EQ(limit.bytes, 1024 * kMebibyte);
  EXPECT_EQ(limit.set_by, "the cgroup /");
  EXPECT_EQ(limit.available, 110 * kMebibyte);
}

TEST_F(MemoryLimitTest, Version1WritesNoLimitAsAHugeNumber) {
  WriteMachine();
  Write("/proc/self/cgroup", "4:memory:/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ReadMemoryLimit(root_).set_by, "the machine");
}

TEST_F(MemoryLimitTest, WithoutDataFromTheKernelThereIsNoLimit) {
  EXPECT_EQ(ReadMemoryLimit(root_).bytes, UINT64_MAX);
  Write("/proc/meminfo", "MemTotal: many\nMemAvailable: much\n");
  EXPECT_EQ(ReadMemoryLimit(root_).available, UINT64_MAX);
}

TEST(MemoryLimitOfThisMachineTest, ThisMachineHasALimit) {
  const MemoryLimit limit = ReadMemoryLimit();
  EXPECT_LT(limit.bytes, UINT64_MAX);
  EXPECT_GT(limit.available, 0u);
  EXPECT_LE(limit.available, limit.bytes);
}

}  // namespace
}  // namespace shoal
