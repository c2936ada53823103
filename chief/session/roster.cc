#include "chief/session/roster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "runtime/transport/status_conversion.h"

namespace shoal {
namespace {

// Log lines need whole seconds only.
std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

}  // namespace

bool Roster::OnHeartbeat(absl::Time now, const v1::HeartbeatRequest& request) {
  const TaskId task = ToTaskId(request.identity().member());
  Member* member = context_.membership.FindMutable(task);
  member->step = request.step();
  member->activity = request.activity();
  const bool had_batch = std::exchange(member->has_batch, request.has_batch());
  member->batch = ToBatchKey(request.batch());
  const bool still_computes = request.computing() && member->computing;
  const bool has_progressed = request.computed() != member->computed;
  if (!still_computes || has_progressed) member->computing_since = now;
  if (has_progressed && request.has_batch() && context_.plan != nullptr &&
      context_.plan->steps.Covers(member->batch)) {
    context_.progress.OnBatchBegun(now, member->batch);
  }
  const bool still_evaluates = still_computes && !had_batch && !request.has_batch();
  if (has_progressed && still_evaluates) context_.progress.OnSign(now);
  member->computing = request.computing();
  member->computed = request.computed();
  if (task.job == Job::kWorker) {
    const std::set<uint32_t> silent(request.silent_ps().begin(), request.silent_ps().end());
    if (context_.reachability.OnReport(now, task.index, silent, request.reaches_all_ps())) {
      context_.log.NoteEvent(absl::StrCat(task.ToString(), " reaches all ps now and gets work"));
      UpdateWorkers();
    }
  }
  if (request.leaving()) {
    if (!request.leaving_because().empty() && context_.phases.is_running()) {
      context_.log.NoteTrouble(
          absl::StrCat(task.ToString(), " ends: ", ToLogLine(request.leaving_because())));
    }
    context_.membership.Leave(task, request.identity().incarnation(), request.asked_to_leave());
  }
  return request.leaving();
}

std::optional<absl::Time> Roster::LastContact(TaskId task) const {
  const Member* member = context_.membership.Find(task);
  if (member == nullptr || !member->live) return std::nullopt;
  return member->last_contact;
}

// A ps still holds its variables: had there been a rollback meanwhile, it would load as the others
// do, and in asynchronous training the chief asks it which batches it has. A worker's contributions
// count once, whichever worker computed them meanwhile; the ledger keeps apart what the worker
// finished before (DataLedger::Admit).
void Roster::OnRevived(TaskId task) {
  context_.log.NoteEvent(
      absl::StrCat(task.ToString(), " is back; no other process had taken its place"));
  UpdateWorkers();
  PrepareIfComplete();  // It may be the last task that was missing.
  UpdateMissing();
}

void Roster::PrepareIfComplete() {
  if (context_.phases.phase() != v1::RunState::PHASE_WAITING || context_.plan == nullptr) return;
  const Membership& membership = context_.membership;
  if (membership.Live(Job::kPs).size() < context_.ps.size()) return;
  if (membership.Live(Job::kWorker).empty()) return;
  context_.phases.Set(v1::RunState::PHASE_PREPARING);
}

void Roster::OnPause(absl::Time now, absl::Duration pause) {
  context_.membership.GrantLeases(now);
  context_.log.Warn(
      absl::StrFormat("this chief stood still for %s (stopped, suspended or short of processors): "
                      "every task has its lease again",
                      absl::FormatDuration(absl::Trunc(pause, absl::Milliseconds(100)))));
}

std::vector<Roster::Lost> Roster::TakePlacesOfLost(absl::Time now) {
  std::vector<Lost> lost;
  for (const TaskId task : context_.membership.Expire(now)) {
    const Member* member = context_.membership.Find(task);
    context_.log.NoteTrouble(
        absl::StrCat(task.ToString(), member->connected ? " is lost: its lease has ended"
                                                        : " is lost: its connection is closed"));
    lost.push_back({task, member->incarnation});
  }
  TakePlacesOfStalled(now, &lost);
  TakePlacesOfUnreached(now, &lost);
  return lost;
}

void Roster::TakePlace(TaskId task, const std::string& why, std::vector<Lost>* lost) {
  context_.membership.TakePlace(task, why);
  lost->push_back({task, context_.membership.Find(task)->incarnation});
}

void Roster::TakePlacesOfStalled(absl::Time now, std::vector<Lost>* lost) {
  for (const uint32_t worker : context_.phases.state().workers()) {
    const TaskId task{Job::kWorker, worker};
    const Member* member = context_.membership.Find(task);
    if (!member->live || !member->computing ||
        now - member->computing_since <= context_.options.stall) {
      continue;
    }
    context_.log.NoteTrouble(absl::StrFormat(
        "%s hangs: process %d on %s has computed %s for %s; it loses its place, others get its "
        "work. If it is only slow, raise cluster.stall_seconds%s",
        task.ToString(), member->process_id, member->host,
        member->has_batch ? ToString(member->batch) : "an evaluation block",
        Seconds(now - member->computing_since),
        context_.options.run.program().file().empty()
            ? ""
            : ", or let the program call work.progress() between the parts of its computation"));
    TakePlace(task, "it hangs in one batch", lost);
  }
}

void Roster::TakePlacesOfUnreached(absl::Time now, std::vector<Lost>* lost) {
  Reachability& reachability = context_.reachability;
  // Workers cannot reach a ps that is lost or loads; that says nothing about the network.
  for (uint32_t ps = 0; ps < context_.ps.size(); ++ps) {
    if (!context_.IsLivePs(ps) || !context_.Serves(ps)) reachability.ForgetPs(ps);
  }
  if (!context_.phases.is_running()) return;
  const v1::RunState& state = context_.phases.state();
  const std::vector<uint32_t> workers(state.workers().begin(), state.workers().end());
  for (const Reachability::Verdict& verdict : reachability.Judge(now, workers)) {
    const TaskId worker{Job::kWorker, verdict.worker};
    std::string link = absl::StrFormat("%s cannot reach %s for %s", worker.ToString(),
                                       PsAndAddress(verdict.ps), Seconds(verdict.silence));
    if (!verdict.is_about_ps) {
      context_.log.Warn(
          absl::StrCat(link,
                       ", and others can; it loses its place, others get its work. Its next "
                       "process gets work when it has reached all ps"));
      TakePlace(worker, link, lost);
      continue;
    }
    if (verdict.others > 0) {
      absl::StrAppend(&link, ", nor can ", verdict.others, " more of ", workers.size(), " workers");
    }
    context_.log.Warn(absl::StrCat(link, "; the ps loses its place and has to start again"));
    TakePlace(TaskId{Job::kPs, verdict.ps}, link, lost);
  }
}

void Roster::UpdateWorkers() {
  std::vector<uint32_t> live;
  std::vector<uint64_t> incarnations;
  std::vector<uint32_t> waiting;
  std::vector<uint64_t> waiting_incarnations;
  for (const uint32_t index : context_.membership.Live(Job::kWorker)) {
    const bool works = context_.reachability.MayWork(index);
    (works ? live : waiting).push_back(index);
    (works ? incarnations : waiting_incarnations)
        .push_back(context_.membership.Find(TaskId{Job::kWorker, index})->incarnation);
  }
  const auto assign = [](const auto& values, auto* field) {
    const bool same = std::equal(values.begin(), values.end(), field->begin(), field->end());
    field->Assign(values.begin(), values.end());
    return same;
  };
  RunPhases& phases = context_.phases;
  v1::RunState* state = phases.mutable_state();
  bool same_incarnations = assign(incarnations, state->mutable_worker_incarnations());
  same_incarnations &= assign(waiting, state->mutable_waiting_workers());
  same_incarnations &= assign(waiting_incarnations, state->mutable_waiting_incarnations());
  if (std::equal(live.begin(), live.end(), state->workers().begin(), state->workers().end())) {
    if (!same_incarnations) phases.Changed();  // A worker came back before its place was given up.
    return;
  }
  state->mutable_workers()->Assign(live.begin(), live.end());
  phases.NextView();
  context_.log.Note(
      absl::StrFormat("view %d: workers [%s]", state->view(), absl::StrJoin(live, ",")));
}

void Roster::UpdatePsAddresses() {
  v1::RunState* state = context_.phases.mutable_state();
  state->clear_ps_addresses();
  state->clear_ps_incarnations();
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    const Member* member = context_.membership.Find(TaskId{Job::kPs, i});
    state->add_ps_addresses(member == nullptr ? "" : member->address);
    state->add_ps_incarnations(context_.ps[i].incarnation);
  }
  context_.phases.Changed();
}

void Roster::UpdateMissing() {
  std::vector<std::string> missing;
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (!context_.IsLivePs(i)) missing.push_back(absl::StrCat("ps/", i));
  }
  for (uint32_t i = 0; i < context_.num_replicas(); ++i) {
    if (!context_.membership.IsLive(TaskId{Job::kWorker, i})) {
      missing.push_back(absl::StrCat("worker/", i));
    }
  }
  v1::RunState* state = context_.phases.mutable_state();
  if (std::equal(missing.begin(), missing.end(), state->waiting_for().begin(),
                 state->waiting_for().end())) {
    return;
  }
  state->mutable_waiting_for()->Assign(missing.begin(), missing.end());
  context_.phases.Changed();
}

std::string Roster::PsAndAddress(uint32_t ps) const {
  const Member* member = context_.membership.Find(TaskId{Job::kPs, ps});
  return absl::StrCat("ps/", ps, " at ", member == nullptr ? "" : member->address);
}

std::string Roster::BrokenLinks() const {
  std::vector<std::string> links;
  for (const uint32_t worker : context_.membership.Live(Job::kWorker)) {
    for (const auto& [ps, since] : context_.reachability.Silent(worker)) {
      links.push_back(absl::StrCat("worker/", worker, " cannot reach ", PsAndAddress(ps)));
    }
  }
  return absl::StrJoin(links, ", ");
}

}  // namespace shoal
