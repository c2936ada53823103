#include "worker/trainer.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "runtime/rpc/retry.h"

namespace shoal {

void MarkBatch(const TrainerOptions& options, const BatchKey& batch) {
  if (options.mark != nullptr) options.mark->Set({batch, options.identity().incarnation()});
}

absl::Status FatalErrorOf(uint32_t ps, const ExchangeResult& result) {
  const absl::Status& status = result.status;
  const char kRemedy[] =
      ": memory or network corrupts data here; replace the hardware if it happens again";
  // Outcomes say nothing final where a new view cut the exchange short.
  if (status.ok() && absl::c_linear_search(result.outcomes, PushOutcome::kCorrupt)) {
    return absl::UnavailableError(absl::StrCat(
        "ps/", ps, " has refused a contribution as damaged each time that it was sent", kRemedy));
  }
  if (absl::IsDataLoss(status)) {
    return absl::UnavailableError(
        absl::StrCat("an exchange with ps/", ps, " failed: ", status.message(), kRemedy));
  }
  if (status.ok() || MayHeal(status)) return absl::OkStatus();
  if (absl::IsFailedPrecondition(status)) return status;
  return absl::UnavailableError(
      absl::StrCat("an exchange with ps/", ps, " failed: ", status.ToString()));
}

absl::Status CallUntilAnswered(const Clock* clock, absl::FunctionRef<bool()> over,
                               absl::FunctionRef<absl::Status()> call) {
  Retry retry(clock);
  while (true) {
    absl::Status status = retry.Run(absl::Seconds(5), Backoff(1), call);
    if (!IsOutcomeUnknown(status) || over()) return status;
  }
}

}  // namespace shoal
