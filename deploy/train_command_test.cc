#include "deploy/train_command.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "base/unique_fd.h"
#include "deploy/launch/task_places.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

absl::StatusOr<v1::RunConfig> Resolve(const std::vector<std::string>& args) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTrain, args);
  if (!line.ok()) return line.status();
  return ResolveTrainRun(*line, "/home/me", absl::FromUnixSeconds(0), 7);
}

class TrainCommandTest : public ::testing::Test {
 protected:
  TrainCommandTest() {
    std::string pattern = ::testing::TempDir() + "/train.XXXXXX";
    out_ = mkdtemp(pattern.data());
    roles_.check_run = [this](const v1::RunConfig& run, FileSystem*, const ShutdownNotification&,
                              const v1::WorkerProgram*) -> absl::StatusOr<PreflightCheck> {
      if (!fits_.ok()) return fits_;
      return PreflightCheck{run, {}, finished_, ""};
    };
    roles_.run_local = [this](const TaskOptions& options) {
      ++runs_;
      if (stopped_.has_value()) {
        EXPECT_OK(WriteSummary(options.file_system, options.run.out(), *stopped_));
        return absl::CancelledError("stopped on request");
      }
      if (!result_.ok()) return result_;
      Summary summary;
      summary.status = "finished";
      summary.steps = 3;
      summary.test_accuracy = 0.5;
      summary.skipped_batches = skipped_batches_;
      summary.checkpoint = options.run.out() + "/checkpoints/step-3";
      return WriteSummary(options.file_system, options.run.out(), summary);
    };
  }

  int Train(std::vector<std::string> args = {}) {
    args.insert(args.end(), {"--model=mlp", "--num_epochs=1", "--num_ps_tasks=0", "--out=" + out_});
    return TrainMain(roles_, args);
  }

  std::string out_;
  TrainRoles roles_;
  int runs_ = 0;
  uint64_t skipped_batches_ = 0;
  absl::Status result_;
  std::optional<Summary> stopped_;  // the summary of a run that is stopped
  absl::Status fits_;               // the result of the check before the start
  bool finished_ = false;
  const std::unique_ptr<FileSystem> file_system_ = NewPosixFileSystem();
};

TEST(ResolveTrainRunTest, DefaultsAreTwoPsTwoWorkersAndADirectoryOfItsOwn) {
  const absl::StatusOr<v1::RunConfig> run = Resolve({"--model=mlp", "--num_epochs=1"});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->deployment().num_ps_tasks(), 2u);
  EXPECT_EQ(run->deployment().num_replicas(), 2u);
  EXPECT_THAT(run->out(), StartsWith("/home/me/runs/mlp-19"));
  EXPECT_THAT(run->out(), EndsWith("-7"));  // Two that start in one second share nothing.
  EXPECT_EQ(Resolve({"--model=mlp", "--num_epochs=1", "--out=x"})->out(), "/home/me/x");
  EXPECT_EQ(Resolve({"--model=mlp", "--num_epochs=1", "--out=/x"})->out(), "/x");
  EXPECT_EQ(Resolve({"x"}).status().message(), "x: is not a flag; did you mean --run=x?");
  EXPECT_EQ(Resolve({"x.py"}).status().message(),
            "x.py: is not a flag; did you mean --program=x.py?");
  EXPECT_EQ(Resolve({"x", "--program=train.py"}).status().message(),
            "x: is not a flag; this command takes only flags, see --help");
  EXPECT_THAT(Resolve({}).status().message(), HasSubstr("--run: is missing; name a run file"));
  // A program takes the place of the run file; what it left out is named.
  EXPECT_THAT(Resolve({"--program=train.py"}).status().message(), HasSubstr("num_epochs"));
  EXPECT_THAT(Resolve({"--out=x"}).status().message(), HasSubstr("--run=x/run.textproto"));
  EXPECT_THAT(Resolve({"--num_epochs=3"}).status().message(), HasSubstr("model: is not given"));
}

TEST_F(TrainCommandTest, AComputeProgramIsAskedBeforeTheRunIsChecked) {
  std::string asked;
  v1::RunConfig checked;
  uint64_t examples = 0;
  roles_.ask_program = [&asked](const v1::RunConfig& run) -> absl::StatusOr<v1::WorkerProgram> {
    asked = run.program().file();
    if (run.program().args_size() > 0) return absl::FailedPreconditionError("program: no");
    v1::WorkerProgram program;
    program.mutable_model()->set_train_examples(70);
    program.mutable_settings()->set_num_epochs(4);
    return program;
  };
  roles_.check_run = [&](const v1::RunConfig& run, FileSystem*, const ShutdownNotification&,
                         const v1::WorkerProgram* program) {
    checked = run;
    examples = program->model().train_examples();
    return PreflightCheck{run, {}, /*finished=*/true, ""};
  };
  EXPECT_EQ(TrainMain(roles_, {"--program=/a/train.py", "--out=" + out_}), 0);
  EXPECT_EQ(asked, "/a/train.py");
  EXPECT_EQ(checked.num_epochs(), 4u);
  EXPECT_EQ(checked.name(), "train");
  EXPECT_EQ(examples, 70u);
  EXPECT_EQ(TrainMain(roles_, {"--program=/a/train.py", "--out=" + out_, "--", "-v"}), 78);
}

TEST_F(TrainCommandTest, AComputeProgramThatStartsSlowlyIsNamed) {
  roles_.usual_program_start = absl::ZeroDuration();
  roles_.ask_program = [](const v1::RunConfig&) -> absl::StatusOr<v1::WorkerProgram> {
    // It waits until the message is in the file that captures standard error.
    struct stat captured = {};
    while (captured.st_size == 0) fstat(STDERR_FILENO, &captured);
    return absl::FailedPreconditionError("program: no");
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(TrainMain(roles_, {"--program=/a/train.py", "--out=" + out_}), 78);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("waiting for train.py to start and declare its model\n"));
}

TEST_F(TrainCommandTest, ADivergedRunPrintsHowToContinue) {
  result_ = absl::FailedPreconditionError(
      "variable w is not finite after the update of step 8: training diverges; lower "
      "--learning_rate (0.5 there) or clip gradients");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train({"--learning_rate=0.5"}), 78);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("start again:   shoal train --run=" + out_ + "/run.textproto --out=" +
                        out_ + "-lower --learning_rate=0.05   # a tenth of the rate\n"));
}

TEST_F(TrainCommandTest, AResumedRunThatDivergesAtItsFirstStepPrintsHowToContinue) {
  ASSERT_EQ(Train(), 0);  // Leaves a summary, which the chief of a start without steps keeps.
  const std::string before = SummaryJson(*ReadSummary(file_system_.get(), out_));
  result_ = absl::FailedPreconditionError(
      "variable w is not finite after the update of step 4: training diverges; lower "
      "--learning_rate (0.5 there) or clip gradients");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train({"--learning_rate=0.5"}), 78);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("start again:   shoal train "));
  EXPECT_EQ(SummaryJson(*ReadSummary(file_system_.get(), out_)), before);
  EXPECT_EQ(LoadRunConfig(out_ + "/run.textproto")->optimizer().learning_rate(), 0.5)
      << "the command that was printed continues this run";
}

TEST_F(TrainCommandTest, AnErrorOfAProgramThatSpeaksOfDivergenceIsNotTakenForOne) {
  result_ = absl::FailedPreconditionError("ValueError: training diverges");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train({"--learning_rate=0.5"}), 78);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), Not(HasSubstr("learning_rate=")));
}

TEST_F(TrainCommandTest, EditsOfAProgramThatTheRunsOwnRunFileOverrulesAreNamed) {
  uint32_t batch_size = 64;
  roles_.ask_program = [&batch_size](const v1::RunConfig&) -> absl::StatusOr<v1::WorkerProgram> {
    v1::WorkerProgram program;
    program.mutable_settings()->set_num_epochs(4);
    program.mutable_settings()->set_batch_size(batch_size);
    return program;
  };
  const auto start = [this](const std::vector<std::string>& args) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(TrainMain(roles_, args), 0);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::vector<std::string> first = {"--program=/a/train.py", "--num_ps_tasks=0",
                                          "--num_epochs=2", "--out=" + out_};
  const std::string resume = "--run=" + out_ + "/run.textproto";
  start(first);
  EXPECT_THAT(start({resume}), Not(HasSubstr("declares")));
  batch_size = 32;
  const std::string edited = "warning: train.py declares batch_size 32; ";
  EXPECT_THAT(start({resume}), HasSubstr(edited));
  EXPECT_THAT(start({resume}), HasSubstr(edited)) << "at each start";
  EXPECT_THAT(start({resume, "--batch_size=32"}), Not(HasSubstr("declares")));
  EXPECT_THAT(start(first), Not(HasSubstr("declares")));
  EXPECT_THAT(start({resume}), Not(HasSubstr("declares")));
  batch_size = 16;
  finished_ = true;
  EXPECT_THAT(start({resume}), HasSubstr("warning: train.py declares batch_size 16; "));
}

TEST_F(TrainCommandTest, OneProcessLeavesItsFilesAndPrintsItsResult) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train(), 0);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("test accuracy: 0.5000\n"));
  EXPECT_THAT(printed, HasSubstr("checkpoint:    " + out_ + "/checkpoints/step-3\n"));
  EXPECT_THAT(printed, HasSubstr("shoal train --run=" + out_ + "/run.textproto"));
  for (const char* name : {"/run.textproto", "/cluster.textproto", "/logs"}) {
    EXPECT_TRUE(file_system_->GetInfo(out_ + name).ok()) << name;
  }
  // The run file it left can be run again.
  EXPECT_EQ(TrainMain(roles_, {"--run=" + out_ + "/run.textproto"}), 0);
  EXPECT_EQ(runs_, 2);
}

TEST_F(TrainCommandTest, TheLastLinesSummarizeTheRunAlsoIfTheMetricsFileEndsEarly) {
  roles_.run_local = [](const TaskOptions& options) {
    const auto metrics =
        MetricsFile::Open(options.file_system, options.run.out() + "/metrics.jsonl", 0);
    StepMetrics line;
    line.step = 1261;
    EXPECT_OK((*metrics)->Append(line));
    options.progress->Add({41000, 0, 0.5, std::nullopt, 64});
    return absl::CancelledError("stopped on request");  // The disk is full: there is no summary.
  };
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train(), 143);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("trained:       41000 steps\n"));
  EXPECT_EQ(ReadSummary(file_system_.get(), out_)->steps, 41000u);
}

TEST_F(TrainCommandTest, TimeAndRateOfAResumedRunAreThoseOfItsSteps) {
  ASSERT_EQ(Train(), 0);
  Summary summary = *ReadSummary(file_system_.get(), out_);
  summary.first_step = 1;
  summary.train_seconds = 2;
  // The directory was moved since.
  summary.checkpoint = "/gone/checkpoints/ckpt-3";
  ASSERT_OK(WriteSummary(file_system_.get(), out_, summary));
  finished_ = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train(), 0);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("trained:       3 steps; now 2 steps in 2.0 s"));
  EXPECT_THAT(printed, HasSubstr("checkpoint:    " + out_ + "/checkpoints/ckpt-3\n"));
}

TEST_F(TrainCommandTest, AStopWhoseSummaryCannotBeWrittenPrintsTheCheckpointAllTheSame) {
  // In the way of summary.json, as a disk that is full.
  ASSERT_OK(file_system_->MakeDirectory(out_ + "/summary.json.tmp/x"));
  const std::string checkpoint = CheckpointName{5, 1, 1}.ToString();
  ASSERT_OK(file_system_->MakeDirectory(out_ + "/checkpoints/" + checkpoint));
  ASSERT_OK(WriteAtomically(*file_system_, out_ + "/checkpoints/" + checkpoint + "/MANIFEST", "x"));
  result_ = absl::CancelledError("stopped on request");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train(), 143);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("checkpoint:    " + out_ + "/checkpoints/" + checkpoint + "\n"));
  EXPECT_THAT(printed, HasSubstr("resume:        shoal train --run=" + out_ + "/run.textproto"));
}

TEST_F(TrainCommandTest, AStopWithoutACheckpointOfItsLastStepPrintsWhatIsLost) {
  stopped_.emplace();
  stopped_->status = "stopped";
  stopped_->steps = 7;
  const auto printed = [this] {
    ::testing::internal::CaptureStdout();
    const int code = Train();
    std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_NE(code, 0);
    return text;
  };
  const std::string none = printed();
  EXPECT_THAT(none, Not(HasSubstr("test ")));
  EXPECT_THAT(none, HasSubstr("checkpoint:    none was made; the run begins again at step 0\n"));
  EXPECT_THAT(none, Not(HasSubstr("not saved:")));
  EXPECT_THAT(none, HasSubstr("start again:   shoal train --run="));
  EXPECT_THAT(none, Not(HasSubstr("resume:")));
  stopped_->checkpoint = out_ + "/checkpoints/" + CheckpointName{5, 1, 1}.ToString();
  stopped_->checkpoint_failure = "step 7: no space left on device";
  stopped_->test_step = 4;
  stopped_->test_loss = 0.5;
  const std::string older = printed();
  EXPECT_THAT(older, HasSubstr("test loss:     0.5000 (of step 4)\n"));
  EXPECT_THAT(older, HasSubstr("lost:          2 steps after the checkpoint of step 5"));
  EXPECT_THAT(older, HasSubstr("not saved:     step 7: no space left on device\n"));
  EXPECT_THAT(older, HasSubstr("resume:        shoal train --run="));
  stopped_->checkpoint = out_ + "/checkpoints/" + CheckpointName{7, 1, 1}.ToString();
  EXPECT_THAT(printed(), Not(HasSubstr("lost:")));
}

TEST_F(TrainCommandTest, TheCommandToResumeNamesTheLimitAndIsQuoted) {
  roles_.command = "../bin/shoal";
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(TrainMain(roles_, {"--model=mlp", "--max_steps=3", "--num_ps_tasks=0",
                               "--out=" + out_ + "/it's here"}),
            0);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("resume:        ../bin/shoal train --run='" + out_ +
                                 "/it'\\''s here/run.textproto' --max_steps=4   # or more\n"));
  EXPECT_THAT(printed, HasSubstr("trained:       3 steps"));
  EXPECT_THAT(printed, Not(HasSubstr("epoch")));
}

TEST_F(TrainCommandTest, AFinishedRunNamesTheLimitThatEndedIt) {
  const auto resume = [this](uint64_t steps, double epochs) {
    Summary summary;
    summary.status = "finished";
    summary.steps = steps;
    summary.epochs = epochs;
    EXPECT_OK(WriteSummary(file_system_.get(), out_, summary));
    finished_ = true;
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(Train({"--max_steps=30"}), 0);
    return ::testing::internal::GetCapturedStdout();
  };
  const std::string by_steps = resume(30, 0.5);
  EXPECT_THAT(by_steps, HasSubstr("This run had already finished.\n"));
  EXPECT_THAT(by_steps, HasSubstr("run.textproto --max_steps=31   # or more\n"));
  EXPECT_THAT(by_steps, Not(HasSubstr("num_epochs")));
  EXPECT_THAT(resume(20, 1), HasSubstr("run.textproto --num_epochs=2   # or more\n"));
  EXPECT_THAT(resume(30, 1), HasSubstr("--max_steps=31 --num_epochs=2   # or more\n"));
}

TEST_F(TrainCommandTest, MaxStepsBelowTheStepsThatWereMadeAreRefused) {
  Summary summary;
  summary.status = "finished";
  summary.steps = 40;
  summary.first_step = 10;
  summary.train_seconds = 2;
  ASSERT_OK(WriteSummary(file_system_.get(), out_, summary));
  finished_ = true;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Train({"--max_steps=30"}), 64);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("--max_steps: 30 is below the 40 steps that this run has made, so nothing "
                        "was trained; to train on, name a higher number\n"));
  // The same command again, if its steps were exceeded.
  ASSERT_OK(WriteAtomically(*file_system_, out_ + "/run.textproto", "max_steps: 30\n"));
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train({"--max_steps=30"}), 0);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(printed, HasSubstr("This run had already finished.\n"));
  EXPECT_THAT(printed, HasSubstr("trained:       40 steps"));
}

TEST_F(TrainCommandTest, AResumeThatIsRefusedDoesNotPrintTheResultOfTheStartBefore) {
  ASSERT_EQ(Train(), 0);
  result_ = absl::FailedPreconditionError("model: is another");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Train(), 78);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(ReadSummary(file_system_.get(), out_)->status, "finished");
}

TEST_F(TrainCommandTest, TheCommandToResumeRepeatsTheSecurityFlags) {
  ASSERT_EQ(Train(), 0);
  finished_ = true;
  const auto how = [this](const std::vector<std::string>& args) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(Train(args), 0);
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(how({"--insecure"}), HasSubstr("shoal train --insecure --run=" + out_));
  roles_.place = [](const TaskFlags&, const v1::RunConfig&, const std::string&) {
    return std::unique_ptr<TaskPlaces>();
  };
  EXPECT_THAT(how({"--insecure", "--hosts=/my hosts", "--ssh_config=/c"}),
              HasSubstr("shoal launch --hosts='/my hosts' --ssh_config=/c --insecure --run="));
}

TEST_F(TrainCommandTest, HostsJudgeTheirDevicesAndOneMachineItsOwn) {
  v1::DeploymentOptions checked;
  roles_.check_run = [&checked](const v1::RunConfig& run, FileSystem*, const ShutdownNotification&,
                                const v1::WorkerProgram*) {
    checked = run.deployment();
    return PreflightCheck{run, {}, /*finished=*/true, ""};
  };
  const std::vector<std::string> strict = {"--devices=/gpu:0", "--noallow_soft_placement"};
  EXPECT_EQ(Train(strict), 0);
  EXPECT_EQ(checked.devices(), "/gpu:0");
  EXPECT_FALSE(checked.allow_soft_placement());
  roles_.place = [](const TaskFlags&, const v1::RunConfig&, const std::string&) {
    return std::unique_ptr<TaskPlaces>();
  };
  EXPECT_EQ(Train(strict), 64) << "--hosts is missing";
  EXPECT_EQ(Train({"--devices=/gpu:0", "--noallow_soft_placement", "--hosts=hosts"}), 0);
  EXPECT_EQ(checked.devices(), "");
  EXPECT_TRUE(checked.clone_on_cpu());
  EXPECT_TRUE(checked.allow_soft_placement());
}

TEST_F(TrainCommandTest, MoreWorkersThanGpusAreRefusedBeforeTheStart) {
  roles_.count_gpus = [] { return 1u; };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(TrainMain(roles_, {"--model=mlp", "--num_epochs=1", "--out=" + out_}), 64);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("num_replicas: 2 workers of this host take 1 GPU each, and it has 1; give "
                        "--num_replicas=1, or --clone_on_cpu to compute on CPUs\n"));
  EXPECT_EQ(runs_, 0);
}

TEST_F(TrainCommandTest, TheFirstLineListsTheGpus) {
  roles_.describe_gpus = [](const v1::DeploymentOptions& deployment) {
    return "GPUs: for " + std::to_string(deployment.num_clones());
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Train(), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), StartsWith("GPUs: for 1\n"));
}

TEST_F(TrainCommandTest, SkippedBatchesAreShown) {
  const auto printed = [this] {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(Train(), 0);
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(printed(), Not(HasSubstr("skipped")));
  skipped_batches_ = 1;
  EXPECT_THAT(printed(), HasSubstr("skipped:       1 batch, "));
  skipped_batches_ = 3;
  EXPECT_THAT(printed(), HasSubstr("skipped:       3 batches, "));
}

TEST_F(TrainCommandTest, ARunThatHasFinishedOrIsRefusedIsLeftAsItIs) {
  EXPECT_EQ(Train(), 0);
  const std::string run_file = *ReadFile(*file_system_, out_ + "/run.textproto");
  finished_ = true;
  EXPECT_EQ(Train({"--seed=7"}), 0);
  fits_ = absl::FailedPreconditionError("model: is another");
  EXPECT_EQ(Train({"--seed=7"}), 78);
  EXPECT_EQ(*ReadFile(*file_system_, out_ + "/run.textproto"), run_file);
  EXPECT_EQ(runs_, 1);
  // A refused command makes no directory.
  EXPECT_EQ(TrainMain(roles_, {"--model=mlp", "--num_epochs=1", "--out=" + out_ + "/new"}), 78);
  EXPECT_FALSE(file_system_->GetInfo(out_ + "/new").ok());
}

TEST_F(TrainCommandTest, TheDirectoryThatHoldsTheRunFileIsTheRuns) {
  EXPECT_EQ(Train(), 0);
  const std::string copy = out_ + "_copy";
  ASSERT_TRUE(file_system_->MakeDirectory(copy + "/checkpoints").ok());
  ASSERT_TRUE(WriteAtomically(*file_system_, copy + "/run.textproto",
                              *ReadFile(*file_system_, out_ + "/run.textproto"))
                  .ok());
  EXPECT_EQ(Resolve({"--run=" + copy + "/run.textproto"})->out(), copy);
  EXPECT_EQ(Resolve({"--run=" + copy + "/run.textproto", "--out=/x"})->out(), "/x");
}

TEST(ResolveTrainRunTest, TheDirectoryOfTheDataIsAbsolute) {
  const absl::StatusOr<v1::RunConfig> run =
      Resolve({"--model=mlp", "--num_epochs=1", "--data_dir=data"});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->data().directory(), "/home/me/data");
}

TEST_F(TrainCommandTest, AFailureIsWrittenDownWithItsReason) {
  result_ = absl::DataLossError("data.directory: truncated");
  EXPECT_EQ(Train(), 65);
  const absl::StatusOr<Summary> summary = ReadSummary(file_system_.get(), out_);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->status, "failed");
  EXPECT_EQ(summary->exit_reason, "data.directory: truncated");
}

TEST_F(TrainCommandTest, ADirectoryBelongsToOneRunAtATime) {
  EXPECT_EQ(Train(), 0);
  UniqueFd lock(open((out_ + "/LOCK").c_str(), O_RDWR));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Train(), 78);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("--out: another run is using"));
  EXPECT_EQ(runs_, 1);
}

TEST_F(TrainCommandTest, ADirectoryThatCannotBeMadeNamesTheFlag) {
  roles_.describe_gpus = [](const v1::DeploymentOptions&) { return "GPUs: none"; };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(TrainMain(roles_, {"--model=mlp", "--num_epochs=1", "--out=/proc/none"}), 78);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              StartsWith("shoal train: --out: cannot use /proc/none"));
}

TEST_F(TrainCommandTest, HelpListsEveryFlag) {
  const std::string help = TrainHelp();
  EXPECT_THAT(help, HasSubstr("usage: shoal train"));
  EXPECT_THAT(help, HasSubstr("--num_ps_tasks=N"));
  EXPECT_THAT(help, HasSubstr(std::string(ExitCodeHelp())));
  EXPECT_THAT(LaunchHelp(), HasSubstr(std::string(ExitCodeHelp())));
  EXPECT_EQ(TrainMain(roles_, {"--help"}), 0);
}

}  // namespace
}  // namespace shoal
