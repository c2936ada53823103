// What the ps are told, and how often.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "chief/training_session.h"
#include "runtime/rpc/run_state.h"

namespace shoal {
namespace {

std::string DetailOf(const v1::LoadSlicesRequest&) { return ""; }
std::string DetailOf(const v1::FinishRequest&) { return ""; }
std::string DetailOf(const v1::RequestCutRequest& request) {
  return absl::StrCat(request.version());
}
std::string DetailOf(const v1::GetAppliedRequest& request) { return absl::StrCat(request.epoch()); }
template <typename Request>  // WithholdBatch, DecideBatch
std::string DetailOf(const Request& request) {
  return absl::StrCat(request.batch().epoch(), " ", request.batch().index(), " ", request.number());
}

// What tells one command from another, the receiver's incarnation and the lineage included.
std::string CommandKey(const PsCommand& command) {
  return std::visit(
      [&](const auto& request) {
        return absl::StrCat(command.ps, " ", command.incarnation, " ", command.request.index(), " ",
                            request.identity().lineage(), " ", DetailOf(request));
      },
      command.request);
}

}  // namespace

void TrainingSession::FillIdentity(v1::Identity* identity) const {
  identity->set_run_id(options_.run_id);
  identity->set_term(options_.term);
  identity->mutable_member()->set_job(v1::JOB_CHIEF);
  identity->set_view(state_.view());
  identity->set_lineage(state_.lineage());
}

v1::LoadSlicesRequest TrainingSession::LoadRequest() const {
  v1::LoadSlicesRequest request;
  FillIdentity(request.mutable_identity());
  *request.mutable_run() = options_.run;
  for (const v1::VariableSpec& variable : plan_->variables) *request.add_variables() = variable;
  *request.mutable_shard_map() = plan_->shard_map;
  plan_->steps.ToProto(request.mutable_plan());
  request.set_checkpoint(cuts_.durable_directory());
  for (const auto& [batch, reason] : skipped()) *request.add_skipped() = ToProto(batch);
  request.set_checkpoint_root(options_.checkpoint_root);
  request.set_token(options_.token);
  if (async_ != nullptr) request.set_first_kept_epoch(async_->first_kept_epoch());
  return request;
}

PsCommand TrainingSession::CommandFor(uint32_t ps) const {
  const Member* member = membership_.Find(TaskId{Job::kPs, ps});
  return PsCommand{ps, member == nullptr ? "" : member->address, ps_[ps].incarnation, {}};
}

void TrainingSession::OnUndelivered(absl::Time now, const PsCommand& command) {
  Reissue(command, now + options_.redeliver);
}

void TrainingSession::Reissue(const PsCommand& command, absl::Time due) {
  auto it = next_due_.find(CommandKey(command));
  if (it != next_due_.end()) it->second = std::min(it->second, due);
}

// The commands of one look at the session: what is due of all that is wanted.
class TrainingSession::CommandIssue {
 public:
  CommandIssue(TrainingSession* session, absl::Time now) : session_(*session), now_(now) {}

  // Wanted, and again that long after it was issued. Null: not due, or the ps is not there.
  template <typename Request>
  PsCommand* Want(uint32_t ps, absl::Duration again, Request request) {
    if (!session_.membership_.IsLive(TaskId{Job::kPs, ps})) return nullptr;
    PsCommand command = session_.CommandFor(ps);
    session_.FillIdentity(request.mutable_identity());
    command.request = std::move(request);
    const std::string key = CommandKey(command);
    wanted_.insert(key);
    absl::Time& due = session_.next_due_.try_emplace(key, absl::InfinitePast()).first->second;
    if (now_ < due) return nullptr;
    due = now_ + again;
    commands_.push_back(std::move(command));
    return &commands_.back();
  }
  template <typename Request>
  PsCommand* Want(uint32_t ps, Request request) {
    return Want(ps, session_.options_.resend, std::move(request));
  }

  // Forgets when to repeat what nobody wants any more.
  std::vector<PsCommand> Take() {
    std::map<std::string, absl::Time>& due = session_.next_due_;
    for (auto it = due.begin(); it != due.end();) {
      it = wanted_.count(it->first) > 0 ? std::next(it) : due.erase(it);
    }
    return std::move(commands_);
  }

 private:
  TrainingSession& session_;
  const absl::Time now_;
  std::vector<PsCommand> commands_;
  std::set<std::string> wanted_;
};

std::vector<PsCommand> TrainingSession::TakeCommands(absl::Time now) {
  CommandIssue issue(this, now);
  const v1::RunState::Phase phase = state_.phase();
  const bool runs = phase == v1::RunState::PHASE_TRAINING || phase == v1::RunState::PHASE_STOPPING;
  if (phase == v1::RunState::PHASE_PREPARING || (runs && async_ != nullptr)) WantLoads(&issue);
  if (runs) {
    WantDecisions(&issue);
    WantCuts(&issue);
  } else if ((phase == v1::RunState::PHASE_DONE && !export_pending()) ||
             phase == v1::RunState::PHASE_FAILED) {
    WantFinishes(&issue);
  }
  return issue.Take();
}

void TrainingSession::WantLoads(CommandIssue* issue) {
  for (uint32_t ps = 0; ps < ps_.size(); ++ps) {
    if (ps_[ps].loaded_lineage != state_.lineage()) {
      if (async_ != nullptr && async_->is_writing()) continue;  // From that one, then.
      PsCommand* const load = issue->Want(ps, options_.resend_load, v1::LoadSlicesRequest());
      // The rest may be large: one entry for each slice.
      if (load != nullptr) load->request = LoadRequest();
      if (load != nullptr) ps_[ps].told_lineage = state_.lineage();
      continue;
    }
    if (async_ == nullptr) continue;
    for (const uint32_t epoch : async_->EpochsToAsk(ps)) {
      v1::GetAppliedRequest request;
      request.set_epoch(epoch);
      issue->Want(ps, std::move(request));
    }
  }
}

void TrainingSession::WantDecisions(CommandIssue* issue) const {
  for (const BadBatchDecisions::Message& message : decisions_.Unanswered()) {
    const auto about_batch = [&message](auto request) {
      *request.mutable_batch() = ToProto(message.batch);
      request.set_number(message.number);
      return request;
    };
    if (message.decided) {
      v1::DecideBatchRequest request = about_batch(v1::DecideBatchRequest());
      request.set_skip(message.skip);
      issue->Want(message.ps, std::move(request));
    } else {
      issue->Want(message.ps, about_batch(v1::WithholdBatchRequest()));
    }
  }
}

void TrainingSession::WantCuts(CommandIssue* issue) const {
  const auto ask_for_cut = [&](uint32_t ps, uint64_t version) {
    v1::RequestCutRequest request;
    request.set_version(version);
    if (async_ != nullptr) request.set_first_kept_epoch(async_->first_kept_epoch());
    issue->Want(ps, std::move(request));
  };
  for (uint32_t ps : cuts_.PsToAsk()) ask_for_cut(ps, cuts_.requested_version());
  for (const CutLedger::Reminder& reminder : cuts_.Reminders()) {
    ask_for_cut(reminder.ps, reminder.version);
  }
}

void TrainingSession::WantFinishes(CommandIssue* issue) const {
  const absl::Status why = FailureOf(state_);
  for (uint32_t ps = 0; ps < ps_.size(); ++ps) {
    if (ps_[ps].finished) continue;
    v1::FinishRequest request;
    request.set_failure_code(static_cast<uint32_t>(why.code()));
    request.set_message(std::string(why.message()));
    issue->Want(ps, std::move(request));
  }
}

}  // namespace shoal
