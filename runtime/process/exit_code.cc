#include "runtime/process/exit_code.h"

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr char kHelp[] =
    "\n"
    "Exit codes; a restart may help after 1, and helps from 128 on:\n"
    "  0         done\n"
    "  1         internal error; an error in the code of a compute program; no room left on a\n"
    "            GPU, in shared memory, or on the disk before the run has begun\n"
    "  2, 64     unknown command; bad flag or run file\n"
    "  65        damaged data or checkpoint\n"
    "  78        the configuration does not fit: a missing file, another model or run, a\n"
    "            directory or port in use, certificates that do not match, variables or rows of\n"
    "            tables that need more memory than a ps may use; or the training diverges\n"
    "  130, 143  ended by SIGINT; by SIGTERM or on request; after a checkpoint\n"
    "  138       a task was lost, another process took its place, the disk failed, or a ps lacks\n"
    "            free memory now: start the task again, or the run with the command in its last\n"
    "            line\n"
    "  128+N     ended by signal N: 137 is SIGKILL, often for lack of memory; 134 and 139 are\n"
    "            crashes\n"
    "docs/failure_model.md has more.\n";

}  // namespace

int ToExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return kExitBadFlags;
    case absl::StatusCode::kDataLoss:
      return kExitBadData;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return kExitBadConfig;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitRestartMe;
    case absl::StatusCode::kCancelled:
      return kExitTerminated;
    default:
      return kExitInternalError;
  }
}

bool IsPermanentExitCode(int code) {
  return code == kExitUsage || code == kExitBadFlags || code == kExitBadData ||
         code == kExitBadConfig;
}

absl::string_view ExitCodeHelp() { return kHelp; }

std::string DescribeExitCode(int code) {
  switch (code) {
    case kExitDone:
      return "done";
    case kExitInternalError:
      return "internal error";
    case kExitUsage:
      return "bad command";
    case kExitBadFlags:
      return "bad flags";
    case kExitBadData:
      return "damaged data";
    case kExitBadConfig:
      return "bad configuration";
    case kExitInterrupted:
      return "interrupted";
    case kExitRestartMe:
      return "asks to be started again";
    case kExitTerminated:
      return "terminated";
    default:
      return absl::StrCat("exit code ", code);
  }
}

}  // namespace shoal
