#include "chief/session/async_reloads.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal {

bool AsyncReloads::OnApplied(uint32_t ps, uint32_t epoch, const v1::GetAppliedResponse& response) {
  if (!async_.AddApplied(ps, epoch, response)) return false;
  RunPhases& phases = context_.phases;
  // Workers that know this view push to the new process.
  phases.NextView();
  const absl::Status status = async_.Serve(ps, phases.state().view());
  if (!status.ok()) {
    phases.Fail(std::string(status.message()));
    return false;
  }
  const bool kept_all = std::exchange(context_.ps[ps].has_served, true);
  if (kept_all) {
    context_.log.NoteEvent(absl::StrFormat("ps/%d serves again, with all that it had", ps));
  } else if (phases.phase() != v1::RunState::PHASE_PREPARING) {
    context_.log.NoteEvent(absl::StrFormat(
        "ps/%d serves again, from %s; missing updates are computed again", ps,
        context_.has_checkpoint()
            ? absl::StrCat("the checkpoint of step ", context_.cuts.durable_version())
            : "its first values, as there is no checkpoint yet"));
  }
  return true;
}

}  // namespace shoal
