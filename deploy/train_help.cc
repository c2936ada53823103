// The texts of `shoal train --help` and `shoal launch --help`.
#include <string>

#include "absl/strings/str_cat.h"

#include "deploy/train_command.h"
#include "runtime/config/flags.h"
#include "runtime/process/exit_code.h"

namespace shoal {

std::string TrainHelp() {
  return absl::StrCat(
      "usage: shoal train --run=FILE|--program=FILE [flags] [-- ARGUMENTS OF THE PROGRAM]\n"
      "\n"
      "Trains what the run file describes, on this machine: starts one chief, --num_ps_tasks\n"
      "parameter servers and --num_replicas workers as processes, shows progress, and leaves in\n"
      "--out the checkpoints, metrics.jsonl, summary.json, report.html and logs. Ctrl-C makes a\n"
      "checkpoint and stops; the same command with the same --out resumes from it. SIGUSR1\n"
      "makes a checkpoint without stopping. With --metrics_address=localhost:9090 a browser\n"
      "shows the run.\n"
      "\n"
      "  shoal train --run=deploy/runs/fashion_cnn.textproto\n"
      "  shoal train --run=deploy/runs/fashion_cnn.textproto --num_ps_tasks=3 --num_replicas=4\n"
      "  shoal train --run=deploy/runs/fashion_mlp.textproto --nosync_replicas --max_staleness=8\n"
      "  shoal train --run=deploy/runs/fashion_mlp.textproto --num_ps_tasks=0     (one process)\n"
      "  shoal train --program=train.py --num_ps_tasks=2 -- --depth=3   (a program of your own)\n"
      "  shoal train --run=runs/fashion_cnn-20260101-120000-4711/run.textproto --num_epochs=5\n"
      "\n",
      FlagHelp(kScopeTrain), ExitCodeHelp());
}

std::string LaunchHelp() {
  return absl::StrCat(
      "usage: shoal launch --hosts=FILE --run=FILE [flags]\n\n"
      "The same as `shoal train`, but every task runs on one of the hosts in FILE, over ssh. The\n"
      "program and the run's directory --out must be at the same path on this machine and on\n"
      "every host (a shared file system), and `ssh -o BatchMode=yes HOST true` must work without\n"
      "questions. Ctrl-C makes a checkpoint and stops everything. The run also stops if\n"
      "this command is killed. Certificates (--tls_cert, ...) or --insecure are needed. See\n"
      "docs/hosts.md.\n\n"
      "A line of FILE:   NAME [slots=N] [roles=chief,ps,worker] [address=A] [user=U] [port=P]\n\n"
      "  shoal launch --hosts=hosts --run=deploy/runs/fashion_cnn.textproto --insecure\n"
      "  shoal launch --hosts=hosts --run=RUN_DIR/run.textproto --num_epochs=5 \\\n"
      "    --tls_cert=certs/{job}.crt --tls_key=certs/{job}.key --tls_ca=certs/ca.crt\n\n",
      FlagHelp(kScopeLaunch), ExitCodeHelp());
}

}  // namespace shoal
