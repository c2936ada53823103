// What the ps are told, and how often.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "chief/training_session.h"

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
  auto it = next_due_.find(CommandKey(command));
  if (it != next_due_.end()) it->second = std::min(it->second, now + options_.redeliver);
}

std::vector<PsCommand> TrainingSession::TakeCommands(absl::Time now) {
  std::vector<PsCommand> commands;
  std::set<std::string> wanted;
  // Null: not now.
  auto issue = [&](uint32_t ps, absl::Duration again, auto request) -> PsCommand* {
    if (!membership_.IsLive(TaskId{Job::kPs, ps})) return nullptr;
    PsCommand command = CommandFor(ps);
    command.request = std::move(request);
    const std::string key = CommandKey(command);
    wanted.insert(key);
    absl::Time& due = next_due_.try_emplace(key, absl::InfinitePast()).first->second;
    if (now < due) return nullptr;
    due = now + again;
    commands.push_back(std::move(command));
    return &commands.back();
  };
  const v1::RunState::Phase phase = state_.phase();
  const bool runs = phase == v1::RunState::PHASE_TRAINING || phase == v1::RunState::PHASE_STOPPING;
  if (phase == v1::RunState::PHASE_PREPARING || (runs && async_ != nullptr)) {
    for (uint32_t ps = 0; ps < ps_.size(); ++ps) {
      if (ps_[ps].loaded_lineage != state_.lineage()) {
        v1::LoadSlicesRequest head;
        FillIdentity(head.mutable_identity());
        PsCommand* const load = issue(ps, options_.resend_load, std::move(head));
        // The rest may be large: one entry for each slice.
        if (load != nullptr) load->request = LoadRequest();
        continue;
      }
      if (async_ == nullptr) continue;
      for (const uint32_t epoch : async_->EpochsToAsk(ps)) {
        v1::GetAppliedRequest request;
        FillIdentity(request.mutable_identity());
        request.set_epoch(epoch);
        issue(ps, options_.resend, std::move(request));
      }
    }
  }
  if (runs) {
    for (const BadBatchDecisions::Message& message : decisions_.Unanswered()) {
      const BatchKey& batch = message.batch;
      auto fill = [&](auto request) {
        FillIdentity(request.mutable_identity());
        *request.mutable_batch() = ToProto(batch);
        request.set_number(message.number);
        return request;
      };
      if (message.decided) {
        v1::DecideBatchRequest request = fill(v1::DecideBatchRequest());
        request.set_skip(message.skip);
        issue(message.ps, options_.resend, std::move(request));
      } else {
        issue(message.ps, options_.resend, fill(v1::WithholdBatchRequest()));
      }
    }
    const auto ask_for_cut = [&](uint32_t ps, uint64_t version) {
      v1::RequestCutRequest request;
      FillIdentity(request.mutable_identity());
      request.set_version(version);
      if (async_ != nullptr) request.set_first_kept_epoch(async_->first_kept_epoch());
      issue(ps, options_.resend, std::move(request));
    };
    for (uint32_t ps : cuts_.PsToAsk()) ask_for_cut(ps, cuts_.requested_version());
    for (const CutLedger::Reminder& reminder : cuts_.Reminders()) {
      ask_for_cut(reminder.ps, reminder.version);
    }
  } else if (phase == v1::RunState::PHASE_DONE || phase == v1::RunState::PHASE_FAILED) {
    for (uint32_t ps = 0; ps < ps_.size(); ++ps) {
      if (ps_[ps].finished) continue;
      v1::FinishRequest request;
      FillIdentity(request.mutable_identity());
      const absl::Status why = failure();
      request.set_failure_code(static_cast<uint32_t>(why.code()));
      request.set_message(std::string(why.message()));
      issue(ps, options_.resend, std::move(request));
    }
  }
  for (auto it = next_due_.begin(); it != next_due_.end();) {
    it = wanted.count(it->first) > 0 ? std::next(it) : next_due_.erase(it);
  }
  return commands;
}

}  // namespace shoal
