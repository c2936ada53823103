// Tests waits during which the system's time is set back by an hour, as by NTP or an administrator.
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "runtime/process/child.h"
#include "runtime/process/run_lock.h"
#include "runtime/process/shutdown.h"

namespace {

std::atomic<int> g_set_back_seconds{0};

}  // namespace

// Replaces the function of the C library, also for shared libraries. It changes only the system's
// time, not the time since the machine's start.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto system = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = system(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec -= g_set_back_seconds;
  return result;
}

namespace shoal {
namespace {

// Sets the clock back soon after it is made.
class SetBack {
 public:
  SetBack()
      : thread_([] {
          absl::SleepFor(absl::Milliseconds(20));
          g_set_back_seconds = 3600;
        }) {}
  ~SetBack() {
    thread_.join();
    g_set_back_seconds = 0;
  }

 private:
  std::thread thread_;
};

constexpr absl::Duration kWait = absl::Milliseconds(100);

TEST(SetClockTest, TheClockOfThisTestCanBeSet) {
  const absl::Time before = absl::Now();
  g_set_back_seconds = 3600;
  EXPECT_LT(absl::Now(), before);
  g_set_back_seconds = 0;
}

TEST(SetClockTest, AChildIsWaitedForUntilTheTimeout) {
  ChildOptions options;
  options.name = "sleeper";
  options.args = {"/bin/sh", "-c", "exec sleep 600"};
  const auto child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  const SetBack set_back;
  EXPECT_FALSE((*child)->WaitFor(kWait).has_value());
}

TEST(SetClockTest, AShutdownIsWaitedForUntilTheTimeout) {
  ShutdownNotification shutdown;
  const SetBack set_back;
  EXPECT_FALSE(shutdown.WaitFor(kWait));
}

TEST(SetClockTest, ALockIsWaitedForUntilTheTimeout) {
  std::string directory = ::testing::TempDir() + "/set_clock.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const auto held = RunLock::Acquire(directory, RunLock::Holder::kChief);
  ASSERT_TRUE(held.ok()) << held.status();
  const SetBack set_back;
  EXPECT_EQ(RunLock::Acquire(directory, RunLock::Holder::kChief, kWait).status().code(),
            absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace shoal
