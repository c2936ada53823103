#ifndef SHOAL_CHIEF_SESSION_SESSION_OPTIONS_H_
#define SHOAL_CHIEF_SESSION_SESSION_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

// The options of a TrainingSession.
struct SessionOptions {
  v1::RunConfig run;  // The resolved run file.
  std::string run_id;
  uint64_t term = 1;
  uint32_t num_ps_tasks = 1;  // 1 in a LOCAL run.
  std::string checkpoint_root;
  // SharedByAllTasks(run), which must be the same for every task that registers. Not set: nothing
  // is compared.
  std::optional<v1::RunConfig> shared_run;
  std::string token;  // The content of checkpoint_root/TOKEN.
  // The checkpoint that the run resumes from, and its directory below checkpoint_root.
  std::optional<v1::Manifest> manifest;
  std::string manifest_directory;
  // The run file sets the times below that have no initializer; runtime/config/defaults.cc has
  // their defaults.
  absl::Duration lease;
  absl::Duration grace = absl::Seconds(1);
  // The longest wait for tasks to register, for ps to load, for a worker to return, and for any
  // progress of the training.
  absl::Duration peer_wait;
  // The longest time in which a worker computes one batch or one evaluation block.
  absl::Duration stall;
  absl::Duration wait_note = absl::Seconds(10);  // The time between two notes of one wait.
  absl::Duration ps_return_wait;                 // The longest wait for a lost ps.
  // The session requests a checkpoint after it has trained for this time without one; 0: never for
  // this reason.
  absl::Duration save_period = absl::ZeroDuration();
  // The longest wait for the checkpoint of a stop (StopTimes::checkpoint). Then the run ends with
  // the one before.
  absl::Duration stop_wait;
  // ASYNC: the longest wait for the reports of the steps that a cut contains.
  absl::Duration lines_wait = absl::Seconds(10);
  // The times after which a command is sent again: a command that was not answered, a load that was
  // not answered, a load that failed but may succeed later, and a command that did not reach the
  // ps.
  absl::Duration resend = absl::Seconds(2);
  absl::Duration resend_load = absl::Seconds(60);
  absl::Duration reload = absl::Seconds(2);
  absl::Duration redeliver = absl::Milliseconds(300);
  // Every n-th cut gets a model.safetensors; 0: only the last cut of the run. Not set: no cut.
  std::optional<uint64_t> export_every;
  // The longest wait for the export of a run that was stopped. Other runs wait for peer_wait.
  absl::Duration export_wait = absl::Seconds(30);
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_OPTIONS_H_
