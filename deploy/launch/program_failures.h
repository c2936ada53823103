// Records why the compute programs of a run's workers failed, and decides whether starting them
// again can help.
#ifndef SHOAL_DEPLOY_LAUNCH_PROGRAM_FAILURES_H_
#define SHOAL_DEPLOY_LAUNCH_PROGRAM_FAILURES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

struct ProgramFailure {
  std::string cause;  // "train.py:12: ValueError: boom"
  // The cause names a line of the program: it was reported by the program itself.
  bool names_a_line = false;
};

// Returns why the program failed if a worker's last words say so: "program: CAUSE; see LOG".
std::optional<ProgramFailure> ProgramFailureIn(absl::string_view words);

// Not thread-safe.
class ProgramFailures {
 public:
  // Notes that a worker's program failed when the run had made so many steps. Returns whether it
  // failed in another way than the one before.
  bool Add(uint32_t worker, const std::string& cause, uint64_t step);

  // Returns whether all of `num_workers` workers failed in the same way, at least one of them
  // twice, while the run made no step. This is a bug of the program, and a restart does not help.
  bool IsBug(size_t num_workers) const;

  // Returns the cause of the newest failure if the run has made no step since then; else "".
  std::string CauseAt(uint64_t step) const { return step == step_ ? cause_ : ""; }

 private:
  std::string cause_;
  uint64_t step_ = 0;
  uint32_t failures_ = 0;  // The number since the last step, all for this cause.
  std::set<uint32_t> workers_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_PROGRAM_FAILURES_H_
