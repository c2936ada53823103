// Workers' compute programs as processes: tests/compute_program/toy_program.cc, which does what it
// should or misbehaves in one way.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "base/unique_fd.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"
#include "tests/compute_program/toy_run.h"
#include "worker/program/external_program.h"
#include "worker/program/program_inputs.h"
#include "worker/program/program_process.h"
#include "worker/replica/batch_crash.h"

namespace shoal {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ComputeProgramTest, DeclaresAndComputes) {
  Trained trained("");
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  const v1::ModelDeclaration& declared = trained.inputs().declaration;
  ASSERT_EQ(declared.variables_size(), 4);
  EXPECT_EQ(declared.variables(0).name(), "linear.weight");
  EXPECT_EQ(declared.train_examples(), 240u);
  EXPECT_EQ(declared.test_examples(), 50u);
  EXPECT_FALSE(declared.classifies());
  ASSERT_EQ(declared.metrics_size(), 3);
  EXPECT_EQ(declared.metrics(0).name(), "accuracy");
  EXPECT_EQ(declared.metrics(1).name(), "mean_error");
  EXPECT_EQ(declared.metrics(2).kind(), v1::METRIC_KIND_AUC);
  EXPECT_EQ(declared.initial_values(), 0u) << "they are not written yet";
  EXPECT_EQ(trained.program().compute_fingerprint(), "program toy on a CPU");

  BatchResult first, again, other;
  trained.parameter(0)[1] = 0.5f;
  trained.program().Expect(0, {});
  ASSERT_TRUE(trained.Train(0, 0, &first).ok());
  EXPECT_GT(first.loss_sum, 0);
  EXPECT_EQ(first.examples, 24u);
  EXPECT_EQ(trained.finals(), std::vector<int>({1, 1, 1, 0}));
  const float gradient = trained.contribution(0, 0)[2];
  EXPECT_NE(gradient, 0);
  const BatchKey next[] = {{0, 1}, {0, 2}, {0, 3}};
  trained.program().Expect(1, next);
  ASSERT_TRUE(trained.Train(0, 1, &other, 1).ok());
  EXPECT_NE(other.loss_sum, first.loss_sum);
  EXPECT_EQ(trained.contribution(0, 0)[2], gradient);
  ASSERT_TRUE(trained.Train(0, 0, &again, 1).ok());
  EXPECT_EQ(again.loss_sum, first.loss_sum);
  EXPECT_EQ(trained.contribution(1, 0)[2], gradient);

  BatchResult evaluated;
  ASSERT_TRUE(trained.Evaluate(&evaluated).ok());
  EXPECT_GT(evaluated.loss_sum, 0);
  ASSERT_EQ(evaluated.metrics.size(), 3u);
  EXPECT_EQ(evaluated.metrics[0].weight, 50);
  EXPECT_GT(evaluated.metrics[1].sum, 0);
  EXPECT_EQ(evaluated.metrics[1].weight, 50);
  uint64_t scores = 0;
  for (const ScoreCount& count : evaluated.metrics[2].histogram) {
    scores += count.positives + count.negatives;
  }
  EXPECT_EQ(scores, 50u);
  FinishHistograms(&evaluated.metrics);
  EXPECT_LT(MetricValue(evaluated.metrics[2]), 0.5) << "the parameter has the wrong sign";
  EXPECT_GT(MetricValue(evaluated.metrics[2]), 0);
  trained.inputs().finish(absl::OkStatus());
}

TEST(ComputeProgramTest, ReportsOfProgressReachTheWorkerBeforeTheResult) {
  Trained trained("reports_progress");
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  int reports = 0;
  trained.program().ReportProgressTo([&reports] { ++reports; });
  BatchResult result;
  ASSERT_TRUE(trained.Train(0, 0, &result).ok());
  EXPECT_EQ(reports, 0);
  EXPECT_EQ(trained.Evaluate(&result), absl::OkStatus());
  EXPECT_EQ(trained.Evaluate(&result), absl::OkStatus());
  EXPECT_EQ(reports, 2);
  trained.program().ReportProgressTo(nullptr);
  EXPECT_EQ(trained.Evaluate(&result), absl::OkStatus()) << "nobody wants to know";
}

TEST(ComputeProgramTest, AProgramThatSpeaksVersion1HasMeansOnly) {
  Trained trained("speaks_version_1");
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  ASSERT_EQ(trained.inputs().declaration.metrics_size(), 2);
  EXPECT_EQ(trained.inputs().declaration.metrics(1).kind(), v1::METRIC_KIND_MEAN);
  BatchResult result;
  ASSERT_TRUE(trained.Train(0, 0, &result).ok());
  ASSERT_EQ(result.metrics.size(), 2u);
  EXPECT_GT(result.metrics[1].sum, 0);
  EXPECT_EQ(result.metrics[1].weight, 24);
}

TEST(ComputeProgramTest, EqualInitialValuesAreOneFile) {
  Trained one("");
  Trained two("");
  ASSERT_TRUE(one.status().ok() && two.status().ok());
  EXPECT_NE(one.WriteInitialValues(), 0u);
  EXPECT_EQ(one.WriteInitialValues(), two.WriteInitialValues());
}

TEST(ComputeProgramTest, WritesNoInitialValuesForARunWithACheckpoint) {
  const v1::RunConfig run = RunOf("");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const std::string checkpoint = run.out() + "/checkpoints/ckpt-5-1-0000000000000001";
  ASSERT_TRUE(files->MakeDirectory(checkpoint).ok());
  Trained first("");
  ASSERT_TRUE(first.status().ok()) << first.status();
  EXPECT_TRUE(absl::IsNotFound(files->List(run.out() + "/initial").status()))
      << "the chief has not accepted the model yet";
  const std::string path = InitialValuesPath(run.out(), first.WriteInitialValues());
  EXPECT_TRUE(FileExists(*files, path));
  ASSERT_TRUE(RemoveInitialValues(*files, run.out()).ok());
  ASSERT_TRUE(WriteAtomically(*files, checkpoint + "/MANIFEST", "").ok());
  Trained resumed("");
  ASSERT_TRUE(resumed.status().ok()) << resumed.status();
  EXPECT_EQ(resumed.WriteInitialValues(), first.inputs().declaration.initial_values());
  EXPECT_FALSE(FileExists(*files, path));
}

TEST(ComputeProgramTest, AFullDiskIsTemporaryWhileACheckpointCannotBeSeen) {
  const v1::RunConfig run = RunOf("");
  ASSERT_TRUE(NewPosixFileSystem()->MakeDirectory(run.out() + "/logs").ok());
  FaultyFileSystem disk;
  const RealClock clock;
  absl::StatusOr<ReplicaInputs> inputs = Load(run, &disk, &clock);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  disk.faults().FailFrom(disk.faults().num_changes(), absl::ResourceExhaustedError("full"));
  const auto write = [&] { return inputs->write_initial_values(&inputs->declaration); };
  EXPECT_EQ(write().code(), absl::StatusCode::kResourceExhausted);
  // It looks for the values and for checkpoints, and again for checkpoints after the failed write.
  disk.faults().FailReadAt(disk.faults().num_reads() + 2, absl::UnavailableError("stale"));
  EXPECT_EQ(write().code(), absl::StatusCode::kUnavailable);
}

// A program that misbehaves before it is ready ends the run at once, with the reason.
TEST(ComputeProgramTest, IsRefusedBeforeItIsReady) {
  const std::pair<const char*, const char*> cases[] = {
      {"ends_at_once", "ended before it was ready (exit code 3"},
      {"is_no_program", "is not a compute program"},
      {"is_too_new", "has versions 6 to 6"},
      {"fails_before_ready", "program: toy.cc:1: there is no data"},
      {"ends_before_ready", "ended without asking for work"},
      {"other_settings", "settings have other fields"},
      {"empty_dimension", "dimension 0 is 0"},
      {"one_name_twice", "two variables are named linear.weight"},
      {"unknown_kind", "has kind 9"},
      {"declares_17_metrics", "declares 17 metrics; at most 16 are possible"},
      {"odd_metric_name", "a metric is named \"mean error\"; a name has 1 to 64 of"},
      {"reserved_metric_name", "a metric is named loss: metrics.jsonl has a field of this name"},
      {"unknown_metric_kind", "metric mean_error has kind 3; kinds are 1 (MEAN), 2 (AUC)"},
      {"accuracy_is_auc", "metric accuracy has kind 2; it must be a MEAN"},
      {"tables_named_bad", "a table is named \"a/b\"; a name has 1 to 128"},
      {"bad_initial_value", "the initial value of variable linear.bias is not finite"},
  };
  for (const auto& [mode, why] : cases) {
    Trained trained(mode);
    EXPECT_EQ(trained.status().code(), absl::StatusCode::kFailedPrecondition) << trained.status();
    EXPECT_THAT(std::string(trained.status().message()), HasSubstr(why)) << mode;
  }
}

// If a program misbehaves later, its worker has failed and may be started again.
TEST(ComputeProgramTest, FailsItsWorkerLater) {
  const std::pair<const char*, const char*> cases[] = {
      {"ends_early", "ended before the run was over (exit code 0)"},
      {"closes_its_socket", "closed its connection to the worker (it still ran 5s later"},
      {"dies_between_marks", "killed by SIGKILL"},
      {"writes_parameters", "killed by SIGSEGV); a write to parameters ends a program like this"},
      {"marks_twice", "final twice"},
      {"marks_a_frozen_one", "FROZEN variable constant"},
      {"marks_an_unknown_one", "variable 1000000 final"},
      {"raises", "program: toy.cc:7: division by zero"},
      {"sends_garbage", "of an unknown type"},
      {"sends_a_huge_message", "at most 131072"},
      {"metric_weighs_nothing", "and weight 0; the weight must not be negative"},
      {"bin_does_not_exist", "metric auc with bin 196609"},
      {"impossible_metric", "metric accuracy"},
      {"other_work", "while it computes work 1"},
      {"reports_other_work", "sent a PROGRESS that is damaged or for work 2 while it computes"},
  };
  for (const auto& [mode, why] : cases) {
    Trained trained(mode);
    ASSERT_TRUE(trained.status().ok()) << mode << " " << trained.status();
    const absl::Status status = trained.TrainAll();
    EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kInternal, absl::StatusCode::kUnavailable))
        << mode << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << mode;
  }
}

TEST(ComputeProgramTest, ACrashMakesTheBatchSuspect) {
  const std::pair<const char*, bool> cases[] = {
      {"crashes_on_a_batch", true}, {"dies_between_marks", false}, {"raises", false}};
  for (const auto& [mode, is_crash] : cases) {
    Trained trained(mode);
    ASSERT_TRUE(trained.status().ok()) << mode << " " << trained.status();
    EXPECT_EQ(IsBatchCrash(trained.TrainAll()), is_crash) << mode;
  }
}

// The program has not received the next batch, so that batch is innocent.
TEST(ComputeProgramTest, ADeathWithoutWorkMakesNoBatchSuspect) {
  const std::pair<const char*, const char*> cases[] = {
      {"crashes_when_idle", "ended before the run was over (killed by SIGSEGV)"},
      {"raises_when_idle", "toy.cc:6: a thread has failed"}};
  for (const auto& [mode, why] : cases) {
    Trained trained(mode);
    ASSERT_TRUE(trained.status().ok()) << mode << " " << trained.status();
    BatchResult result;
    ASSERT_EQ(trained.Train(0, 0, &result), absl::OkStatus()) << mode;
    ASSERT_EQ(trained.Train(0, 1, &result), absl::OkStatus()) << mode;
    // The error may come together with the result of this batch.
    absl::Status status = trained.Train(0, 2, &result);
    if (status.ok()) {
      siginfo_t ended = {};
      ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
      status = trained.Train(0, 3, &result);
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_FALSE(IsBatchCrash(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << mode;
  }
}

TEST(ComputeProgramTest, CannotWriteParametersOrChangeTheSizes) {
  for (const char* mode : {"maps_parameters_writable", "truncates"}) {
    Trained trained(mode);
    EXPECT_TRUE(trained.status().ok()) << mode << " " << trained.status();
  }
}

TEST(ComputeProgramTest, NumbersThatAreNotFiniteAreResults) {
  Trained loss("loss_is_not_finite");
  BatchResult result;
  ASSERT_TRUE(loss.status().ok());
  ASSERT_TRUE(loss.Train(0, 1, &result).ok());
  EXPECT_TRUE(std::isinf(result.loss_sum));
  Trained gradient("gradient_is_not_finite");
  ASSERT_TRUE(gradient.status().ok());
  ASSERT_TRUE(gradient.Train(0, 1, &result).ok());
  EXPECT_TRUE(std::isnan(gradient.contribution(0, 1)[0]));
  Trained metric("metric_is_nan");
  ASSERT_TRUE(metric.status().ok());
  ASSERT_TRUE(metric.Train(0, 1, &result).ok());
  EXPECT_TRUE(std::isfinite(result.loss_sum));
  EXPECT_TRUE(std::isnan(result.metrics[1].sum));
  EXPECT_EQ(MetricValue(result.metrics[1]), std::nullopt);
}

TEST(ComputeProgramTest, NamesThePlaceOfADeclarationThatTheRunRefuses) {
  const absl::Status why = absl::FailedPreconditionError("variable 0 is a in the first worker");
  Trained talks("explains_a_refusal");
  ASSERT_TRUE(talks.status().ok()) << talks.status();
  const absl::Status refused = talks.inputs().refused(why);
  EXPECT_EQ(refused.code(), why.code());
  EXPECT_THAT(std::string(refused.message()),
              StartsWith("program: toy.cc:9: variable 0 is a in the first worker; see "));
  Trained silent("");
  ASSERT_TRUE(silent.status().ok()) << silent.status();
  EXPECT_EQ(silent.inputs().refused(why), why);
}

TEST(ComputeProgramTest, AProgramThatNeverAsksForWorkIsNamed) {
  v1::RunConfig run = RunOf("hangs_before_ready");
  run.mutable_cluster()->set_wait_seconds(1);
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(files->MakeDirectory(run.out()).ok());
  const RealClock clock;
  const absl::Status status = Load(run, files.get(), &clock).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did not declare its variables (DECLARE) within 800ms of its start"));
}

TEST(ComputeProgramTest, AProgramThatCannotBeStartedIsNamed) {
  v1::RunConfig run = RunOf("");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(files->MakeDirectory(run.out()).ok());
  const RealClock clock;
  run.mutable_program()->set_file("/nowhere/program");
  EXPECT_EQ(Load(run, files.get(), &clock).status().code(), absl::StatusCode::kNotFound);
  run.mutable_program()->set_file("/etc/passwd");
  EXPECT_EQ(Load(run, files.get(), &clock).status().code(), absl::StatusCode::kPermissionDenied);
}

// A program that has started once in this run exists, so its worker is started again.
TEST(ComputeProgramTest, FaultsOfALaterStartAreTemporary) {
  EXPECT_EQ(Trained("ends_at_once", /*was_checked=*/true).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Trained("lacks_something", /*was_checked=*/true).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Trained("unknown_kind", /*was_checked=*/true).status().code(),
            absl::StatusCode::kFailedPrecondition);

  v1::RunConfig run = RunOf("");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const RealClock clock;
  ASSERT_TRUE(files->MakeDirectory(run.out()).ok());
  run.mutable_program()->set_file("/nowhere/program");
  EXPECT_EQ(Load(run, files.get(), &clock, /*was_checked=*/true).status().code(),
            absl::StatusCode::kUnavailable);
  // A run that has trained has started its program.
  ASSERT_TRUE(WriteAtomically(*files, JoinPath(run.out(), "metrics.jsonl"), "").ok());
  EXPECT_EQ(Load(run, files.get(), &clock).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ComputeProgramTest, ALogThatCannotBeOpenedNowIsATemporaryFault) {
  v1::RunConfig run = RunOf("");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const RealClock clock;
  ASSERT_TRUE(files->MakeDirectory(run.out() + "/logs").ok());
  const std::string log = run.out() + "/logs/program-0.log";
  ASSERT_EQ(symlink(log.c_str(), log.c_str()), 0);  // Every open fails.
  const absl::Status status = Load(run, files.get(), &clock).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("program: log file " + log));
}

// Schedulers send SIGTERM to all processes of a run, which then makes a last checkpoint.
TEST(ComputeProgramTest, OutlivesSignalsToAllProcesses) {
  Trained trained("signals_its_group");
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  EXPECT_EQ(trained.TrainAll(), absl::OkStatus());
}

std::string ContentOf(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(*NewPosixFileSystem(), path);
  return text.ok() ? *text : text.status().ToString();
}

// cluster.grace_seconds is 1 in these tests: it does not count for a run that is over.
TEST(ComputeProgramTest, ContinuesBehindARunThatIsOver) {
  Trained trained("continues");
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  EXPECT_EQ(trained.TrainAll(), absl::OkStatus());
  trained.inputs().finish(absl::OkStatus());
  EXPECT_EQ(ContentOf(RunOf("continues").out() + "/logs/program-0.out"),
            "the work behind the run is done\n");
}

TEST(ComputeProgramTest, IsKilledSoonBehindARunIfItsWorkerIsAskedToEnd) {
  ShutdownNotification shutdown;
  Trained trained("continues_for_ever", false, &shutdown);
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  std::thread scheduler([&shutdown] {
    absl::SleepFor(absl::Milliseconds(300));
    shutdown.Request(SIGTERM);
  });
  const absl::Time began = absl::Now();
  trained.inputs().finish(absl::OkStatus());
  EXPECT_LT(absl::Now() - began, absl::Minutes(5)) << "an hour would be the limit";
  scheduler.join();
}

TEST(ComputeProgramTest, IsKilledSoonBehindARunThatWasStopped) {
  Trained trained("continues_for_ever");
  ASSERT_TRUE(trained.status().ok()) << trained.status();
  const absl::Time began = absl::Now();
  trained.inputs().finish(absl::CancelledError("stopped on request"));
  EXPECT_LT(absl::Now() - began, absl::Minutes(5));
}

TEST(ComputeProgramTest, IsAskedWithoutARun) {
  const absl::StatusOr<v1::WorkerProgram> answer = AskProgram(RunOf(""), false);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->settings().num_epochs(), 2u);
  EXPECT_EQ(answer->settings().batch_size(), 24u);
  EXPECT_EQ(answer->model().variables_size(), 4);
  EXPECT_EQ(answer->model().initial_values(), 0u);
}

// A chief that resumes a run asks again: its program may be on storage that comes back.
TEST(ComputeProgramTest, IsMissingForNowIfItsRunHasTrained) {
  v1::RunConfig run = RunOf("");
  run.mutable_program()->set_file("/not/there/program");
  EXPECT_EQ(AskProgram(run, false).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AskProgram(run, true).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ComputeProgramTest, SetsWhatTheRunLeavesToIt) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const RealClock clock;
  TaskOptions options;
  options.file_system = files.get();
  options.clock = &clock;
  options.run = RunOf("");
  options.given.emplace();
  *options.given->mutable_program() = options.run.program();
  options.given->set_batch_size(16);
  const absl::StatusOr<ReplicaInputs> inputs = LoadProgramInputs(&options);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(options.run.num_epochs(), 2u);
  EXPECT_EQ(options.run.batch_size(), 16u);
  EXPECT_EQ(inputs->train_plan->batches_per_epoch(), 15);
  EXPECT_FALSE(options.given.has_value());
}

// The program prints the value of the variable that it sees.
TEST(ComputeProgramTest, ReceivesTheVariablesOfItsOwn) {
  setenv("SHOAL_TEST_VARIABLE", "inherited", /*overwrite=*/1);
  const RealClock clock;
  ProgramProcess::Options options;
  options.clock = &clock;
  options.args = {"/bin/sh", "-c", "echo $SHOAL_TEST_VARIABLE"};
  options.environment = {{"SHOAL_TEST_VARIABLE", "its own"}};
  options.log_file = absl::StrCat(getenv("TEST_TMPDIR"), "/variables");
  options.parameters_fd = STDERR_FILENO;
  options.contributions_fd = STDERR_FILENO;
  const auto started = ProgramProcess::Start(options);
  ASSERT_TRUE(started.ok());
  EXPECT_TRUE((*started)->End(absl::InfiniteFuture()).exit.ok());
  EXPECT_EQ(*ReadFile(*NewPosixFileSystem(), options.log_file), "its own\n");
}

// This process's lease on the file keeps the system from executing it, as a file system that does
// not answer does.
TEST(ComputeProgramTest, AProgramThatTheSystemDoesNotExecuteIsGivenUp) {
  const std::string file = absl::StrCat(getenv("TEST_TMPDIR"), "/leased");
  std::ofstream(file) << "#!/bin/sh\n";
  ASSERT_EQ(chmod(file.c_str(), 0755), 0);
  signal(SIGIO, SIG_IGN);  // The system asks for the lease.
  const UniqueFd leased(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(fcntl(leased.get(), F_SETLEASE, F_WRLCK), 0) << std::strerror(errno);
  const RealClock clock;
  ProgramProcess::Options options;
  options.clock = &clock;
  options.args = {file};
  options.patience = absl::Milliseconds(100);
  options.parameters_fd = STDERR_FILENO;
  options.contributions_fd = STDERR_FILENO;
  EXPECT_THAT(ProgramProcess::Start(options),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr(absl::StrCat("did not execute ", file, " within 100ms"))));
}

TEST(ComputeProgramTest, TheEndOfAProcessIsNoticedAtOnce) {
  ProgramProcess::Options options;
  options.args = {"/bin/sleep", "1000"};
  options.parameters_fd = STDERR_FILENO;
  options.contributions_fd = STDERR_FILENO;
  const RealClock clock;
  options.clock = &clock;
  const auto started = ProgramProcess::Start(options);
  ASSERT_TRUE(started.ok());
  kill((*started)->pid(), SIGUSR1);
  std::string output, input;
  EXPECT_THAT((*started)->Wait(absl::InfiniteFuture(), &output, &input),
              AnyOf(ProgramChannel::Event::kEnded, ProgramChannel::Event::kClosed));
  const ProgramEnd end = (*started)->End(absl::InfiniteFuture());
  EXPECT_EQ(end.exit.Describe(), "killed by SIGUSR1");
  EXPECT_FALSE(end.was_killed);
}

TEST(ComputeProgramTest, AProcessWhoseEndTheSystemDoesNotKeepHasNotSucceeded) {
  ProgramProcess::Options options;
  options.args = {"/bin/sleep", "1000"};
  options.parameters_fd = STDERR_FILENO;
  options.contributions_fd = STDERR_FILENO;
  const RealClock clock;
  options.clock = &clock;
  signal(SIGCHLD, SIG_IGN);
  const auto started = ProgramProcess::Start(options);
  ASSERT_TRUE(started.ok());
  kill((*started)->pid(), SIGUSR1);
  const ProgramEnd end = (*started)->End(absl::InfiniteFuture());
  signal(SIGCHLD, SIG_DFL);
  EXPECT_FALSE(end.exit.ok());
  EXPECT_FALSE(end.exit.is_known);
}

// Each look at it is an hour later.
class FastClock : public Clock {
 public:
  absl::Time Now() const override { return start_ + absl::Hours(++looks_); }
  bool WaitUntil(absl::Time, Mutex*, CondVar*) const override { return false; }

 private:
  const absl::Time start_ = absl::Now();
  mutable int looks_ = 0;
};

TEST(ComputeProgramTest, DeadlinesAreThoseOfTheClock) {
  ProgramProcess::Options options;
  options.args = {"/bin/sleep", "1000"};
  options.parameters_fd = STDERR_FILENO;
  options.contributions_fd = STDERR_FILENO;
  const FastClock clock;
  options.clock = &clock;
  options.patience = absl::InfiniteDuration();
  const auto started = ProgramProcess::Start(options);
  ASSERT_TRUE(started.ok());
  std::string output, input;
  EXPECT_EQ((*started)->Wait(clock.Now() + absl::Hours(3), &output, &input),
            ProgramChannel::Event::kTimeout);
  EXPECT_TRUE((*started)->End(clock.Now() + absl::Hours(3)).was_killed);
}

bool Lives(pid_t process) {
  std::ifstream stat(absl::StrCat("/proc/", process, "/stat"));
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

TEST(ComputeProgramTest, ProcessesThatItStartedDieWithTheWorker) {
  const std::string note = absl::StrCat(getenv("TEST_TMPDIR"), "/grandchild");
  const pid_t worker = fork();
  ASSERT_GE(worker, 0);
  if (worker == 0) {
    ProgramProcess::Options options;
    options.args = {"/bin/sh", "-c", absl::StrCat("sleep 1000 & echo $! > ", note, "; wait")};
    options.parameters_fd = STDERR_FILENO;
    options.contributions_fd = STDERR_FILENO;
    const RealClock clock;
    options.clock = &clock;
    const auto started = ProgramProcess::Start(options);
    pause();  // The test kills it.
    _exit(1);
  }
  pid_t grandchild = 0;
  while (grandchild == 0) {
    std::ifstream(note) >> grandchild;
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(Lives(grandchild));
  kill(worker, SIGKILL);
  EXPECT_EQ(waitpid(worker, nullptr, 0), worker);
  while (Lives(grandchild)) absl::SleepFor(absl::Milliseconds(5));
}

}  // namespace
}  // namespace shoal
