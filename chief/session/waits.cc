#include "chief/session/waits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

// The longest time that a last checkpoint that needs another step waits for it when no worker is
// left: contributions of workers that died may still be on their way.
constexpr absl::Duration kLastContributions = absl::Seconds(2);

// Log lines need whole seconds only.
std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

}  // namespace

std::string Waits::AnyWorker() const {
  const uint32_t replicas = context_.num_replicas();
  return replicas <= 1 ? "worker/0" : absl::StrCat("any of worker/0 to worker/", replicas - 1);
}

std::string Waits::PsWithoutVariables() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (!context_.Serves(i)) names.push_back(absl::StrCat("ps/", i));
  }
  return absl::StrJoin(names, ", ");
}

std::string Waits::LoadTroubles() const {
  std::vector<std::string> troubles;
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    const std::string& trouble = context_.ps[i].load_trouble;
    if (context_.Serves(i) || trouble.empty()) continue;
    troubles.push_back(absl::StrCat("ps/", i, ": ", trouble));
  }
  return troubles.empty() ? "" : absl::StrCat(" (", absl::StrJoin(troubles, "; "), ")");
}

std::vector<uint32_t> Waits::PsWithoutLastShard() const {
  const std::optional<uint64_t> cut = context_.mode->AwaitedFinalCut();
  return cut.has_value() ? context_.cuts.WithoutShard(*cut) : std::vector<uint32_t>();
}

std::vector<std::string> Waits::LostPs() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (context_.ps[i].missing_since != absl::InfiniteFuture()) {
      names.push_back(absl::StrCat("ps/", i));
    }
  }
  return names;
}

Waits::Kind Waits::CurrentKind() const {
  const v1::RunState::Phase phase = context_.phases.phase();
  if (phase == v1::RunState::PHASE_WAITING) return Kind::kRegistration;
  // A lost ps has a deadline of its own, and the run does not get far without it.
  if (!LostPs().empty()) return Kind::kPs;
  if (phase == v1::RunState::PHASE_PREPARING) return Kind::kVariables;
  if (context_.phases.is_interrupted()) return Kind::kNone;  // stop_deadline_ ends it.
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (!context_.Serves(i)) return Kind::kVariables;
  }
  if (!PsWithoutLastShard().empty()) return Kind::kLastCut;
  return context_.phases.state().workers().empty() ? Kind::kWorkers : Kind::kProgress;
}

Waits::Text Waits::DescribeRegistration() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (!context_.IsLivePs(i)) names.push_back(absl::StrCat("ps/", i));
  }
  if (context_.phases.state().workers().empty()) names.push_back(AnyWorker());
  std::string remedy = "start them with this chief's address";
  if (!admission_.last_refusal().empty()) {
    absl::StrAppend(&remedy, " (", admission_.last_refusal(), ")");
  }
  return {absl::StrJoin(names, ", "), "to register", std::move(remedy)};
}

Waits::Text Waits::DescribeWorkers() const {
  const std::string broken = roster_.BrokenLinks();
  return {AnyWorker(), broken.empty() ? "to come back" : "to reach all ps",
          broken.empty() ? "start one with this chief's address"
                         : absl::StrCat(broken, ": check the network between them")};
}

Waits::Text Waits::DescribeProgress() const {
  std::vector<std::string> names;
  for (const uint32_t worker : context_.phases.state().workers()) {
    const Member& member = *context_.membership.Find(TaskId{Job::kWorker, worker});
    names.push_back(absl::StrCat("worker/", worker, member.activity.empty() ? "" : " (",
                                 member.activity, member.activity.empty() ? "" : ")"));
  }
  const std::string broken = roster_.BrokenLinks();
  return {absl::StrJoin(names, ", "),
          absl::StrCat("to get past step ", context_.mode->newest_step()),
          broken.empty() ? "see their logs and those of the ps"
                         : absl::StrCat(broken, ": check the network between them")};
}

Waits::Text Waits::Describe(Kind kind) const {
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kRegistration:
      return DescribeRegistration();
    case Kind::kPs:
      return {absl::StrJoin(LostPs(), ", "), "to come back", "start it with this chief's address"};
    case Kind::kVariables:
      return {absl::StrCat(PsWithoutVariables(), LoadTroubles()),
              context_.has_checkpoint()
                  ? absl::StrCat("to load ", context_.cuts.durable_directory())
                  : "to make the initial values",
              "see their logs"};
    case Kind::kWorkers:
      return DescribeWorkers();
    case Kind::kLastCut: {
      std::vector<std::string> names;
      for (const uint32_t ps : PsWithoutLastShard()) names.push_back(absl::StrCat("ps/", ps));
      return {absl::StrJoin(names, ", "), "to write the last checkpoint",
              "see their logs and the disk"};
    }
    case Kind::kProgress:
      return DescribeProgress();
  }
  return {};
}

Waits::Current Waits::current(absl::Time now) const {
  Current current;
  current.is_waiting = kind_ != Kind::kNone;
  current.is_for_progress = kind_ == Kind::kProgress;
  const absl::Time begin =
      current.is_for_progress ? std::max(context_.progress.last_sign(), since_) : since_;
  if (current.is_waiting) current.waited = now - begin;
  Text text = Describe(kind_);
  current.whom = std::move(text.whom);
  current.what = std::move(text.what);
  return current;
}

void Waits::CheckCurrent(absl::Time now) {
  const SessionOptions& options = context_.options;
  const absl::Time progress = context_.progress.last_sign();
  const Kind kind = CurrentKind();
  const bool has_progressed = kind == Kind::kProgress && progress > since_;
  if (kind != kind_ || has_progressed) {
    NoteEnd(kind != kind_ ? now : progress);
    since_ = kind != kind_ ? now : progress;
    kind_ = kind;
    next_note_ = since_ + options.wait_note;
  }
  if (kind == Kind::kNone) return;
  const absl::Duration waited = now - since_;
  // CheckLostPs ends the wait for a ps.
  const absl::Duration limit = kind == Kind::kPs ? options.ps_return_wait : options.peer_wait;
  const bool too_long = kind != Kind::kPs && waited > limit;
  if (now < next_note_ && !too_long) return;
  next_note_ = now + options.wait_note;
  const Text text = Describe(kind);
  if (too_long) {
    const std::string message =
        absl::StrFormat("waited %s for %s %s; %s, or raise cluster.wait_seconds", Seconds(waited),
                        text.whom, text.what, text.remedy);
    if (kind == Kind::kWorkers || kind == Kind::kProgress) {
      context_.phases.EndSteps();
      context_.EndAfterCheckpoint(message, absl::StatusCode::kUnavailable);
    } else {
      context_.phases.Fail(message, absl::StatusCode::kUnavailable);
    }
    return;
  }
  if (noted_.empty()) ++num_waits_;
  noted_ = absl::StrCat(text.whom, " ", text.what);
  context_.log.NoteTroubleAbout(absl::StrCat("wait ", num_waits_),
                                absl::StrFormat("waiting %s for %s; the run ends after %s",
                                                Seconds(waited), noted_, Seconds(limit)));
}

void Waits::NoteEnd(absl::Time now) {
  if (noted_.empty()) return;
  context_.log.NoteTroubleAbout(absl::StrCat("wait ", num_waits_),
                                absl::StrCat("waited ", Seconds(now - since_), " for ", noted_));
  noted_.clear();
}

bool Waits::CheckLostPs(absl::Time now) {
  const absl::Duration limit = context_.options.ps_return_wait;
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    PsState& ps = context_.ps[i];
    if (context_.IsLivePs(i)) {
      ps.missing_since = absl::InfiniteFuture();
      continue;
    }
    if (ps.incarnation == 0) continue;
    ps.missing_since = std::min(ps.missing_since, now);
    if (now - ps.missing_since <= limit) continue;
    context_.phases.Fail(
        absl::StrFormat("ps/%d is gone and did not come back within %s; %s", i,
                        absl::FormatDuration(limit),
                        context_.has_checkpoint()
                            ? absl::StrCat("resume the run from the checkpoint of step ",
                                           context_.cuts.durable_version())
                            : "there is no checkpoint yet: if the run is started again, it begins "
                              "at step 0"),
        absl::StatusCode::kUnavailable);
    return false;
  }
  return true;
}

bool Waits::CheckStop(absl::Time now) {
  if (!context_.phases.is_interrupted()) return true;
  const absl::Duration stop_wait = context_.options.stop_wait;
  stop_deadline_ = std::min(stop_deadline_, now + stop_wait);
  const absl::Time stop_begin = stop_deadline_ - stop_wait;
  const bool is_stuck = now - std::max(stop_begin, context_.progress.last()) > stop_wait / 2;
  const bool needs_steps =
      context_.cuts.requested() && context_.cuts.requested_version() > context_.mode->newest_step();
  if (is_stuck && needs_steps && !context_.EndsWithoutSteps()) {
    const uint64_t step = context_.mode->newest_step();
    context_.log.NoteTrouble(
        absl::StrCat("no step was completed within ", Seconds(stop_wait / 2), " of the stop",
                     step > context_.cuts.durable_version()
                         ? absl::StrCat(", so the last checkpoint is of step ", step)
                         : ""));
    context_.phases.EndSteps();
    has_given_steps_up_ = true;
  }
  // Workers that live may complete the step that some slices lack.
  const bool needs_a_step = !has_given_steps_up_ &&
                            context_.phases.phase() == v1::RunState::PHASE_TRAINING &&
                            context_.EndsWithoutSteps() && !context_.mode->CanReachCut();
  steps_deadline_ =
      needs_a_step ? std::min(steps_deadline_, now + kLastContributions) : absl::InfiniteFuture();
  if (now <= std::min(stop_deadline_, steps_deadline_)) return true;
  if (now <= stop_deadline_ && !context_.phases.steps_have_ended()) {
    // No worker came back. The last cut does not wait for evaluations any longer.
    context_.phases.EndSteps();
    steps_deadline_ = now + kLastContributions;
    return true;
  }
  context_.log.NoteTrouble(
      context_.has_checkpoint()
          ? absl::StrFormat(
                "the stop could not make a checkpoint in time; the newest is of step %d. If "
                "ps need longer to write, raise cluster.grace_seconds",
                context_.cuts.durable_version())
          : "the stop could not make a checkpoint in time, and the run has none. If ps need longer "
            "to write, raise cluster.grace_seconds");
  context_.FinishInterrupted();
  return false;
}

void Waits::Check(absl::Time now) {
  if (context_.phases.is_over()) return;
  if (CheckLostPs(now) && CheckStop(now)) CheckCurrent(now);
}

}  // namespace shoal
