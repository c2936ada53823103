#include "runtime/process/exit_code.h"

#include "absl/strings/str_cat.h"

namespace shoal {

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
