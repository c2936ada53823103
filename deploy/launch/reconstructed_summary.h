// Summarizes a run from the files in its directory, for a run whose chief could not write its
// summary.
#ifndef SHOAL_DEPLOY_LAUNCH_RECONSTRUCTED_SUMMARY_H_
#define SHOAL_DEPLOY_LAUNCH_RECONSTRUCTED_SUMMARY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "runtime/observability/summary.h"

namespace shoal {

class FileSystem;

// summary.json in the run's directory as text to compare: that of an earlier start is there until
// this one's chief has written its own. "" if there is none.
std::string SummaryText(FileSystem* file_system, const std::string& directory);

// The last values that the console showed of a run. metrics.jsonl knows less where its disk was
// full: it ends early, or has steps that a rollback took back.
struct LastShown {
  uint64_t step = 0;               // 0: none.
  std::string checkpoint_failure;  // Why the newest attempt failed; empty: none failed.
};

// Returns the summary of a run that ended with `status`: the step that was shown last, or else the
// last one of metrics.jsonl; and the newest checkpoint.
Summary SummaryFromFiles(const absl::Status& status, const LastShown& shown,
                         const std::string& directory, FileSystem* file_system);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_RECONSTRUCTED_SUMMARY_H_
