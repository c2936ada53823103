#include "deploy/launch/held_run_directory.h"

#include <stdlib.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class HeldRunDirectoryTest : public ::testing::Test {
 protected:
  HeldRunDirectoryTest() {
    std::string pattern = ::testing::TempDir() + "/held.XXXXXX";
    parent_ = mkdtemp(pattern.data());
    run_.set_out(parent_ + "/run");
    run_.set_name("held");
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string parent_;
  v1::RunConfig run_;
};

TEST_F(HeldRunDirectoryTest, HoldCreatesNothing) {
  HeldRunDirectory directory(run_.out(), files_.get());
  ASSERT_OK(directory.Hold());
  EXPECT_TRUE(absl::IsNotFound(files_->GetInfo(run_.out()).status()));
}

TEST_F(HeldRunDirectoryTest, PrepareLeavesLogsAndTheRunFile) {
  HeldRunDirectory directory(run_.out(), files_.get());
  ASSERT_OK(directory.Hold());
  ASSERT_OK(directory.Prepare(run_));
  EXPECT_OK(files_->GetInfo(run_.out() + "/logs").status());
  const absl::StatusOr<std::string> text = ReadFile(*files_, run_.out() + "/run.textproto");
  ASSERT_OK(text.status());
  EXPECT_THAT(*text, HasSubstr("held"));
}

TEST_F(HeldRunDirectoryTest, ASecondRunIsRefusedUntilTheFirstHasEnded) {
  {
    HeldRunDirectory first(run_.out(), files_.get());
    ASSERT_OK(first.Prepare(run_));
    HeldRunDirectory second(run_.out(), files_.get());
    EXPECT_TRUE(absl::IsAlreadyExists(second.Hold()));
    EXPECT_TRUE(absl::IsAlreadyExists(second.Prepare(run_)));
  }
  HeldRunDirectory third(run_.out(), files_.get());
  EXPECT_OK(third.Hold());
}

TEST_F(HeldRunDirectoryTest, ARunningChiefHoldsTheDirectoryToo) {
  HeldRunDirectory first(run_.out(), files_.get());
  ASSERT_OK(first.Prepare(run_));
  const absl::StatusOr<RunLock> chief = RunLock::Acquire(run_.out(), RunLock::Holder::kChief);
  ASSERT_OK(chief.status());
  HeldRunDirectory second(run_.out(), files_.get());
  EXPECT_TRUE(absl::IsAlreadyExists(second.Hold()));
}

TEST_F(HeldRunDirectoryTest, AnErrorOfTheDiskNamesTheFlagAndTheRemedy) {
  run_.set_out("/proc/shoal-run");
  HeldRunDirectory directory(run_.out(), files_.get());
  const absl::Status status = directory.Prepare(run_);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--out: cannot use /proc/shoal-run: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("; name another directory"));
}

}  // namespace
}  // namespace shoal
