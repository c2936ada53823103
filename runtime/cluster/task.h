// A task is one process of a run: (job, index), printed "worker/3".
#ifndef SHOAL_RUNTIME_CLUSTER_TASK_H_
#define SHOAL_RUNTIME_CLUSTER_TASK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

namespace v1 {
class Member;
}

// The same numbers as shoal.v1.Job.
enum class Job : uint8_t {
  kChief = 1,
  kPs = 2,
  kWorker = 3,
  // Reads checkpoints. It is not a member of the run: no task waits for it or calls it.
  kEvaluator = 4,
};

struct TaskId {
  Job job = Job::kChief;
  uint32_t index = 0;

  std::string ToString() const;  // "worker/3"
  std::string FileStem() const;  // "worker-3": for names of files

  friend bool operator==(const TaskId& a, const TaskId& b) {
    return a.job == b.job && a.index == b.index;
  }
  friend bool operator!=(const TaskId& a, const TaskId& b) { return !(a == b); }
  friend bool operator<(const TaskId& a, const TaskId& b) {
    return a.job != b.job ? a.job < b.job : a.index < b.index;
  }
};

// "chief", "ps", "worker" or "evaluator".
absl::string_view JobName(Job job);

// Also accepts "master", TensorFlow's old name of the chief. InvalidArgument lists the names.
absl::StatusOr<Job> ParseJob(absl::string_view name);

TaskId ToTaskId(const v1::Member& member);
v1::Member ToProto(const TaskId& task);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_TASK_H_
