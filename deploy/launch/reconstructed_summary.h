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

// Returns the content of summary.json in the run's directory in a form to compare; "" if the file
// does not exist. Until this start's chief has written its summary, the file may be that of an
// earlier start, so callers compare the text with that at the start.
std::string SummaryText(FileSystem* file_system, const std::string& directory);

// The last values of a run that the console showed. metrics.jsonl may be behind them if its disk
// was full: it may end early, or contain steps that a rollback has undone.
struct LastShown {
  uint64_t step = 0;               // 0: none.
  std::string checkpoint_failure;  // The reason why the newest attempt failed; empty: none failed.
};

// Returns the summary of a run that ended with `status`: the step that was shown last, or else the
// last one of metrics.jsonl; the last evaluation there; and the newest checkpoint.
Summary SummaryFromFiles(const absl::Status& status, const LastShown& shown,
                         const std::string& directory, FileSystem* file_system);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_RECONSTRUCTED_SUMMARY_H_
