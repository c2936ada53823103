#include "runtime/cluster/task.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/identity.pb.h"

namespace shoal {

absl::string_view JobName(Job job) {
  switch (job) {
    case Job::kChief:
      return "chief";
    case Job::kPs:
      return "ps";
    case Job::kWorker:
      return "worker";
    case Job::kEvaluator:
      return "evaluator";
  }
  return "unknown";
}

absl::StatusOr<Job> ParseJob(absl::string_view name) {
  if (name == "chief" || name == "master") return Job::kChief;
  if (name == "ps") return Job::kPs;
  if (name == "worker") return Job::kWorker;
  if (name == "evaluator") return Job::kEvaluator;
  return absl::InvalidArgumentError(
      absl::StrCat("job \"", name, "\" is unknown; it is one of chief, ps, worker, evaluator"));
}

std::string TaskId::ToString() const { return absl::StrCat(JobName(job), "/", index); }

std::string TaskId::FileStem() const { return absl::StrCat(JobName(job), "-", index); }

TaskId ToTaskId(const v1::Member& member) {
  return TaskId{static_cast<Job>(member.job()), member.index()};
}

v1::Member ToProto(const TaskId& task) {
  v1::Member proto;
  proto.set_job(static_cast<v1::Job>(task.job));
  proto.set_index(task.index);
  return proto;
}

}  // namespace shoal
