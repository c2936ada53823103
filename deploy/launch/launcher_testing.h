// (testonly) The fixture of the launcher's tests: tasks are shell scripts, and the chief is a
// double.
#ifndef SHOAL_DEPLOY_LAUNCH_LAUNCHER_TESTING_H_
#define SHOAL_DEPLOY_LAUNCH_LAUNCHER_TESTING_H_

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "deploy/launch/launcher.h"
#include "runtime/observability/progress.h"
#include "runtime/process/batch_mark.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/fake_chief.h"

namespace shoal {

// The start of every script: determines its task, counts its starts, reports its address. A task
// with a file TASK.silent waits for the end of the run instead. `mark` marks the batch of MarkBatch
// as the one that a worker computes.
inline constexpr char kPrologue[] = R"(#!/bin/bash
job=$1; shift
fd=
for a in "$@"; do case $a in
  --run=*) dir=$(dirname "${a#*=}");; --task_index=*) task=$job-${a#*=};; --report_fd=*) fd=${a#*=};;
  --chief_host=*) echo "${a#*=}" > "$dir/$task.chief";;
  --metrics_address=*) echo "${a#*=}" > "$dir/$task.metrics";;
  --local_worker=*) echo "${a#*=}" > "$dir/$task.local";;
esac; done
echo x >> "$dir/$task.starts"
starts=$(wc -l < "$dir/$task.starts")
await() { while [ ! -e "$dir/$1" ]; do sleep 0.01; done; }
mark() { cp "$dir/mark" "$dir/logs/$task.batch"; }
[ ! -e "$dir/$task.silent" ] || await over
[ -z "$fd" ] || { echo "127.0.0.1:7${#task}" >&$fd; eval "exec $fd>&-"; }
)";

// Receives stop requests and crashes, and passes them to the scripts through files.
class TestChief : public FakeChief {
 public:
  explicit TestChief(std::string directory) : directory_(std::move(directory)) {}
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse*) override {
    std::ofstream(directory_ + (request.stop() ? "/stop" : "/save")) << request.reason();
    return absl::OkStatus();
  }
  absl::Status ReportBadBatch(const v1::ReportBadBatchRequest& request,
                              v1::ReportBadBatchResponse*) override {
    std::ofstream(directory_ + "/crash") << request.died().index() << " " << request.detail();
    return absl::OkStatus();
  }

 protected:
  const std::string& directory() const { return directory_; }

 private:
  const std::string directory_;
};

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    std::string pattern = ::testing::TempDir() + "/launcher.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    mkdir((directory_ + "/logs").c_str(), 0755);
    options_.program = directory_ + "/task.sh";
    options_.run.set_out(directory_);
    options_.run.mutable_deployment()->set_num_ps_tasks(1);
    options_.run.mutable_deployment()->set_num_replicas(2);
    options_.run.mutable_cluster()->set_max_worker_restarts(3);
    options_.connect = [this](const std::string&) {
      return NewClient(std::make_unique<TestChief>(directory_));
    };
    options_.end_timeout = absl::Seconds(20);
    ProgressOptions bar;
    bar.write = [this](absl::string_view text) {
      MutexLock lock(&mutex_);
      printed_.append(text.data(), text.size());
      if (text.find("nothing to save yet") != absl::string_view::npos) {
        std::ofstream(directory_ + "/refused") << "x";
      }
      if (text.find(" is skipped: ") != absl::string_view::npos) {
        std::ofstream(directory_ + "/skipped") << "x";
      }
      if (text.find(" could not be started again ") != absl::string_view::npos) {
        std::ofstream(directory_ + "/unstarted") << "x";
      }
      if (text.find("; the others continue without it") != absl::string_view::npos) {
        std::ofstream(directory_ + "/given_up") << "x";
      }
      if (text.find("restarting it in ") != absl::string_view::npos) {
        std::ofstream(directory_ + "/pauses") << "x";
      }
    };
    progress_ = std::make_unique<ProgressReporter>(bar, &clock_);
  }

  absl::Status Launch(const std::string& script, std::string* checkpoint_failure = nullptr) {
    std::ofstream(options_.program) << kPrologue << script;
    chmod(options_.program.c_str(), 0755);
    if (options_.file_system == nullptr) options_.file_system = file_system_.get();
    options_.shutdown = &shutdown_;
    options_.progress = progress_.get();
    Launcher launcher(options_);
    absl::Status status = launcher.Run();
    if (checkpoint_failure != nullptr) *checkpoint_failure = launcher.checkpoint_failure();
    return status;
  }

  // Requests a stop once `file` exists; by default once the last worker has started.
  absl::Status LaunchAndStop(int signal, const std::string& script, std::string file = "") {
    if (file.empty()) {
      const uint32_t workers = options_.run.deployment().num_replicas();
      file = "worker-" + std::to_string(workers - 1) + ".starts";
    }
    std::atomic<bool> ended = false;
    std::thread stopper([&] {
      while (!ended && access((directory_ + "/" + file).c_str(), F_OK) != 0) {
        absl::SleepFor(absl::Milliseconds(5));
      }
      shutdown_.Request(signal);
    });
    const absl::Status status = Launch(script);
    ended = true;
    stopper.join();
    return status;
  }

  void MarkBatch(const MarkedBatch& batch) {
    const auto mark = BatchMark::Create(directory_ + "/mark");
    ASSERT_TRUE(mark.ok()) << mark.status();
    (*mark)->Set(batch);
  }

  std::string Content(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/" + name).rdbuf();
    return text.str();
  }
  int Starts(const std::string& task) {
    return static_cast<int>(Content(task + ".starts").size() / 2);
  }

  const RealClock clock_;
  const std::unique_ptr<FileSystem> file_system_ = NewPosixFileSystem();
  ShutdownNotification shutdown_;
  Mutex mutex_;
  std::string printed_;
  std::unique_ptr<ProgressReporter> progress_;
  std::string directory_;
  Launcher::Options options_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_LAUNCHER_TESTING_H_
