#include "runtime/task/task_help.h"

#include "absl/strings/str_cat.h"

#include "runtime/config/flags.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

// tests/real_process/by_hand_test.py runs it as it stands.
constexpr char kLocalExample[] =
    "  shoal chief  --run=FILE --out=DIR --num_ps_tasks=2 --num_replicas=2 "
    "--listen_address=127.0.0.1:2220 &\n"
    "  shoal ps     --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=0 "
    "--listen_address=127.0.0.1:0 &\n"
    "  shoal ps     --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=1 "
    "--listen_address=127.0.0.1:0 &\n"
    "  shoal worker --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=0 &\n"
    "  shoal worker --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=1 &\n"
    "  wait\n";

std::string EvaluatorHelp() {
  return absl::StrCat(
      "usage: shoal evaluator --run=FILE --out=DIR [flags]\n\n"
      "Evaluates the checkpoints of the run in DIR on the test split as they appear, the newest\n"
      "first, and appends a line for each to DIR/evaluator.jsonl and points to\n"
      "DIR/events/evaluator; with --use_averages to DIR/evaluator_averages.jsonl and\n"
      "DIR/events/evaluator_averages. The run does not know of it: start it before, during or\n"
      "after, or not at all. It ends when the run has finished, or on SIGTERM.\n\n",
      FlagHelp(kScopeTask), ExitCodeHelp());
}

}  // namespace

absl::string_view CommandName(const std::optional<Job>& command) {
  return command.has_value() ? JobName(*command) : "task";
}

std::string TaskHelp(const std::optional<Job>& job) {
  if (job == Job::kEvaluator) return EvaluatorHelp();
  const char* what = !job.has_value()     ? "the task that --job_name or the launcher's variables "
                                            "name: chief, ps, worker or evaluator"
                     : job == Job::kPs    ? "one parameter server: holds its share of the variables"
                     : job == Job::kChief ? "the chief: membership, steps, checkpoints, metrics"
                                          : "one worker: computes gradients of its batches";
  return absl::StrCat(
      "usage: shoal ", CommandName(job), " --run=FILE --out=DIR [flags]\n\nStarts ", what, ".\n",
      "`shoal train` starts all tasks of a run on this machine; this command is for tasks that\n"
      "are started one by one, in any order. All get the same run file and the same DIR, which\n"
      "every machine must see. Only the chief must know how many tasks there are, by\n"
      "--num_ps_tasks and --num_replicas or by host lists; the others need --chief_host.\n\n"
      "One chief, two parameter servers and two workers on this machine:\n\n",
      kLocalExample,
      "\nThe same on the machines a, b and c:\n\n"
      "  a$ shoal chief  --run=FILE --out=DIR --num_ps_tasks=2 --num_replicas=2 \\\n"
      "                  --listen_address=a:2220 --insecure\n"
      "  b$ shoal ps     --run=FILE --out=DIR --chief_host=a:2220 --task_index=0 \\\n"
      "                  --listen_address=b:2222 --insecure\n"
      "  b$ shoal worker --run=FILE --out=DIR --chief_host=a:2220 --task_index=0\n"
      "  c$ shoal ps     --run=FILE --out=DIR --chief_host=a:2220 --task_index=1 \\\n"
      "                  --listen_address=c:2222 --insecure\n"
      "  c$ shoal worker --run=FILE --out=DIR --chief_host=a:2220 --task_index=1\n\n"
      "Under a launcher that numbers its tasks, one command starts them all: job, index and the\n"
      "chief's address come from TF_CONFIG, Kubernetes, Slurm, Open MPI or torchrun, see\n"
      "--cluster_from:\n\n"
      "  srun --ntasks=5 shoal task --run=FILE --out=DIR --num_ps_tasks=2 --insecure\n\n",
      FlagHelp(kScopeTask), ExitCodeHelp());
}

}  // namespace shoal
