#include "runtime/process/shutdown.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "base/notification.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

TEST(ShutdownNotificationTest, TheFirstRequestCounts) {
  ShutdownNotification shutdown;
  EXPECT_FALSE(shutdown.requested());
  EXPECT_FALSE(shutdown.WaitFor(absl::Milliseconds(1)));
  shutdown.Request(SIGTERM);
  shutdown.Request(SIGINT);
  EXPECT_TRUE(shutdown.WaitFor(absl::ZeroDuration()));
  EXPECT_EQ(shutdown.signal(), SIGTERM);
}

TEST(ShutdownNotificationTest, SubscribersAreCalledOnceEvenWhenLate) {
  ShutdownNotification shutdown;
  int early = 0;
  int late = 0;
  shutdown.Subscribe([&early] { ++early; });
  EXPECT_EQ(early, 0);
  shutdown.Request();
  shutdown.Request();
  shutdown.Subscribe([&late] { ++late; });
  EXPECT_EQ(early, 1);
  EXPECT_EQ(late, 1);
}

TEST(ShutdownNotificationTest, WakesThreadsThatWait) {
  ShutdownNotification shutdown;
  std::thread waiter([&shutdown] { shutdown.Wait(); });
  shutdown.Request();
  waiter.join();
}

TEST(ShutdownNotificationTest, CloseWaitsForWhatIsUnderWayAndNothingIsCalledAfterIt) {
  ShutdownNotification shutdown;
  Notification entered, never;
  std::atomic<int> calls{0};
  shutdown.OnAsked(AskedFor::kStatus, [&] {
    entered.Notify();
    never.WaitFor(absl::Milliseconds(50));
    ++calls;
  });
  shutdown.Subscribe([&] { ++calls; });
  std::thread asker([&shutdown] { shutdown.Ask(AskedFor::kStatus); });
  entered.Wait();
  shutdown.Close();
  EXPECT_EQ(calls, 1);
  asker.join();
  shutdown.Ask(AskedFor::kStatus);
  shutdown.Request(SIGTERM);
  shutdown.Subscribe([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(shutdown.signal(), SIGTERM);
}

// Returns how a forked process with a watcher ends. `act` runs in it after the watcher has started.
template <typename Act>
int ExitStatusOf(const SignalOptions& options, Act act) {
  const pid_t pid = fork();
  if (pid == 0) {
    ShutdownNotification shutdown;
    auto watcher = SignalWatcher::Start(options, &shutdown);
    if (!watcher.ok()) _exit(99);
    _exit(act(&shutdown));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(SignalWatcherTest, ASignalBecomesTheNotification) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(ExitStatusOf(SignalOptions(),
                           [signal](ShutdownNotification* shutdown) {
                             kill(getpid(), signal);
                             shutdown->Wait();
                             return ToExitCode(absl::CancelledError(), *shutdown);
                           }),
              128 + signal);
  }
}

TEST(SignalWatcherTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EQ(ExitStatusOf(SignalOptions(),
                         [](ShutdownNotification* shutdown) {
                           kill(getpid(), SIGTERM);
                           shutdown->Wait();
                           kill(getpid(), SIGINT);
                           pause();
                           return 0;
                         }),
            130);
}

// Sends the signal to this process and waits until the watcher has taken it.
void SendAndAwait(int signal) {
  kill(getpid(), signal);
  sigset_t pending;
  do {
    sigpending(&pending);
  } while (sigismember(&pending, signal) == 1);
}

TEST(SignalWatcherTest, TwoTerminationsInARowAreOne) {
  SignalOptions launcher;
  launcher.on_second = [](int) { _exit(8); };
  for (const SignalOptions& options : {SignalOptions(), launcher}) {
    for (const int signal : {SIGTERM, SIGHUP}) {
      EXPECT_EQ(ExitStatusOf(options,
                             [signal](ShutdownNotification* shutdown) {
                               Notification saved;
                               shutdown->OnAsked(AskedFor::kCheckpoint, [&] { saved.Notify(); });
                               kill(getpid(), signal);
                               shutdown->Wait();
                               SendAndAwait(signal);
                               kill(getpid(), SIGUSR1);
                               saved.Wait();
                               return 7;
                             }),
                7);
    }
  }
}

TEST(SignalWatcherTest, ALauncherHandlesTheSecondCtrlCItself) {
  SignalOptions options;
  options.on_second = [](int signal) { _exit(signal); };
  EXPECT_EQ(ExitStatusOf(options,
                         [](ShutdownNotification* shutdown) {
                           kill(getpid(), SIGINT);
                           shutdown->Wait();
                           kill(getpid(), SIGINT);
                           while (true) pause();
                           return 0;
                         }),
            SIGINT);
}

TEST(SignalWatcherTest, AProcessThatHangsIsEnded) {
  SignalOptions options;
  options.hard_exit_after = absl::Milliseconds(20);
  EXPECT_EQ(ExitStatusOf(options,
                         [](ShutdownNotification*) {
                           kill(getpid(), SIGTERM);
                           while (true) pause();
                           return 0;
                         }),
            143);
}

TEST(SignalWatcherTest, AStatusThatHangsKeepsNoSignalFromItsEffect) {
  EXPECT_EQ(ExitStatusOf(SignalOptions(),
                         [](ShutdownNotification* shutdown) {
                           alarm(20);  // A process that hangs is killed by it.
                           Notification hangs, saved, never;
                           shutdown->OnAsked(AskedFor::kStatus, [&] {
                             hangs.Notify();
                             never.Wait();
                           });
                           shutdown->OnAsked(AskedFor::kCheckpoint, [&] { saved.Notify(); });
                           kill(getpid(), SIGUSR2);
                           hangs.Wait();
                           kill(getpid(), SIGUSR1);
                           saved.Wait();
                           kill(getpid(), SIGTERM);
                           shutdown->Wait();
                           return ToExitCode(absl::CancelledError(), *shutdown);
                         }),
            143);
}

TEST(SignalWatcherTest, ASubscriberThatHangsIsEndedWithTheProcess) {
  SignalOptions options;
  options.hard_exit_after = absl::Milliseconds(20);
  EXPECT_EQ(ExitStatusOf(options,
                         [](ShutdownNotification* shutdown) {
                           alarm(20);
                           Notification never;
                           shutdown->Subscribe([&] { never.Wait(); });
                           kill(getpid(), SIGTERM);
                           never.Wait();
                           return 0;
                         }),
            143);
}

TEST(SignalWatcherTest, RequestsAreNotAShutdown) {
  SignalOptions options;
  options.hang_up_reloads = true;
  const std::pair<int, AskedFor> signals[] = {
      {SIGUSR1, AskedFor::kCheckpoint}, {SIGUSR2, AskedFor::kStatus}, {SIGHUP, AskedFor::kReload}};
  for (const auto& [signal, what] : signals) {
    EXPECT_EQ(ExitStatusOf(options,
                           [signal = signal, what = what](ShutdownNotification* shutdown) {
                             ShutdownNotification asked;
                             for (const AskedFor each :
                                  {AskedFor::kCheckpoint, AskedFor::kStatus, AskedFor::kReload}) {
                               shutdown->OnAsked(each, [&asked, each, what] {
                                 asked.Request(each == what ? 1 : 2);
                               });
                             }
                             kill(getpid(), signal);
                             asked.Wait();
                             return shutdown->requested() ? 1 : asked.signal() - 1;
                           }),
              0);
  }
}

TEST(SignalWatcherTest, AHangUpEndsALauncherAsSigtermDoes) {
  EXPECT_EQ(ExitStatusOf(SignalOptions(),
                         [](ShutdownNotification* shutdown) {
                           kill(getpid(), SIGHUP);
                           shutdown->Wait();
                           return ToExitCode(absl::CancelledError(), *shutdown);
                         }),
            143);
}

// Returns how a process ends whose parent is killed. If `ends`, it has begun to end before.
int ExitStatusOfAnOrphan(bool ends) {
  int result[2];
  if (pipe(result) != 0) return -1;
  const pid_t parent = fork();
  if (parent == 0) {
    SignalOptions options;
    options.parent = getpid();
    const int code = ExitStatusOf(options, [&](ShutdownNotification* shutdown) {
      alarm(20);
      const pid_t killed = getppid();
      if (ends) kill(getpid(), SIGINT);
      if (ends) shutdown->Wait();
      kill(killed, SIGKILL);
      while (getppid() == killed) absl::SleepFor(absl::Milliseconds(1));
      // A second signal would have ended this process.
      if (ends) absl::SleepFor(absl::Milliseconds(100));
      shutdown->Wait();
      const char ended_with = static_cast<char>(ToExitCode(absl::CancelledError(), *shutdown));
      return write(result[1], &ended_with, 1) == 1 ? 0 : 1;
    });
    _exit(code);
  }
  close(result[1]);
  char ended_with = 0;
  const bool has_ended = read(result[0], &ended_with, 1) == 1;
  close(result[0]);
  waitpid(parent, nullptr, 0);
  return has_ended ? static_cast<unsigned char>(ended_with) : -1;
}

TEST(SignalWatcherTest, TheEndOfTheParentCountsAsSigterm) {
  EXPECT_EQ(ExitStatusOfAnOrphan(/*ends=*/false), 143);
}

TEST(SignalWatcherTest, TheEndOfTheParentBeforeTheWatcherStartsCountsAsSigterm) {
  // No process has the first number, and the second belongs to another one than the parent.
  for (const pid_t ended : {1 << 30, 1}) {
    SignalOptions options;
    options.parent = ended;
    EXPECT_EQ(ExitStatusOf(options,
                           [](ShutdownNotification* shutdown) {
                             shutdown->Wait();
                             return ToExitCode(absl::CancelledError(), *shutdown);
                           }),
              143);
  }
}

TEST(SignalWatcherTest, TheEndOfTheParentIsNotASecondSignal) {
  EXPECT_EQ(ExitStatusOfAnOrphan(/*ends=*/true), 130);
}

TEST(ExitCodeTest, EveryKindOfErrorHasItsCode) {
  EXPECT_EQ(ToExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(ToExitCode(absl::InvalidArgumentError("")), 64);
  EXPECT_EQ(ToExitCode(absl::DataLossError("")), 65);
  EXPECT_EQ(ToExitCode(absl::NotFoundError("")), 78);
  EXPECT_EQ(ToExitCode(absl::FailedPreconditionError("")), 78);
  EXPECT_EQ(ToExitCode(absl::AbortedError("fenced incarnation")), 138);
  EXPECT_EQ(ToExitCode(absl::UnavailableError("")), 138);
  EXPECT_EQ(ToExitCode(absl::CancelledError("")), 143);
  EXPECT_EQ(ToExitCode(absl::InternalError("")), 1);
  EXPECT_EQ(ToExitCode(absl::ResourceExhaustedError("")), 1);
}

}  // namespace
}  // namespace shoal
