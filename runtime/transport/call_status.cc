#include "runtime/transport/call_status.h"

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "runtime/transport/status_conversion.h"

namespace shoal {
namespace {

// Trailing metadata of an answer. Names are of lower case.
constexpr char kMark[] = "shoal-answer";

constexpr absl::string_view kFromBetween = "no answer of the task itself, but ";
constexpr int kNumCodes = 17;

bool HasMark(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  return metadata.find(kMark) != metadata.end();
}

}  // namespace

bool IsOutcomeUnknown(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

bool IsTooLarge(const absl::Status& status) {
  // The texts that gRPC writes on the sending and on the receiving side, and ours.
  return absl::IsResourceExhausted(status) &&
         absl::StrContains(status.message(), "message larger than max");
}

bool MayHeal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:
      return false;
    default:
      return !IsTooLarge(status);
  }
}

grpc::Status MarkAnswer(grpc::ServerContextBase* context, const absl::Status& status) {
  if (context == nullptr) {
    return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
  }
  if (!status.ok()) context->AddTrailingMetadata(kMark, "1");
  return ToGrpcStatus(status);
}

absl::Status StatusOfCall(const grpc::ClientContext& context, const grpc::Status& status) {
  return StatusOfAnswer(FromGrpcStatus(status), HasMark(context));
}

bool IsAnswered(const grpc::ClientContext& context, const grpc::Status& status) {
  return IsAnsweredByService(FromGrpcStatus(status), HasMark(context));
}

absl::Status StatusOfAnswer(const absl::Status& answer, bool has_mark) {
  if (answer.ok() || IsOutcomeUnknown(answer) || IsTooLarge(answer) || has_mark) return answer;
  return absl::UnavailableError(
      absl::StrCat(kFromBetween, absl::StatusCodeToString(answer.code()), ": ", answer.message()));
}

bool IsAnsweredByService(const absl::Status& answer, bool has_mark) {
  return answer.ok() || has_mark;
}

absl::StatusCode CodeFromBetween(const absl::Status& status) {
  const absl::string_view text = status.message();
  const size_t begin = text.find(kFromBetween);
  if (begin == absl::string_view::npos) return absl::StatusCode::kOk;
  const absl::string_view rest = text.substr(begin + kFromBetween.size());
  const absl::string_view name = rest.substr(0, rest.find(':'));
  for (int code = 1; code < kNumCodes; ++code) {
    const auto candidate = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(candidate) == name) return candidate;
  }
  return absl::StatusCode::kOk;
}

}  // namespace shoal
