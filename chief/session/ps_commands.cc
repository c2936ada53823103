#include "chief/session/ps_commands.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "runtime/checkpoint/initial_model.h"
#include "runtime/rpc/run_state.h"

namespace shoal {
namespace {

std::string DescribeDetail(const v1::LoadSlicesRequest&) { return ""; }
std::string DescribeDetail(const v1::FinishRequest&) { return ""; }
std::string DescribeDetail(const v1::RequestCutRequest& request) {
  return absl::StrCat(request.version());
}
std::string DescribeDetail(const v1::GetAppliedRequest& request) {
  return absl::StrCat(request.epoch());
}
template <typename Request>  // WithholdBatch, DecideBatch
std::string DescribeDetail(const Request& request) {
  return absl::StrCat(request.batch().epoch(), " ", request.batch().index(), " ", request.number());
}

// Returns a text that identifies the command: it is the same only for a repeated command, because
// it contains the receiver's incarnation and the lineage.
std::string CommandKey(const PsCommand& command) {
  return std::visit(
      [&](const auto& request) {
        return absl::StrCat(command.ps, " ", command.incarnation, " ", command.request.index(), " ",
                            request.identity().lineage(), " ", DescribeDetail(request));
      },
      command.request);
}

}  // namespace

// Collects the commands of one call of Take.
class PsCommands::Issue {
 public:
  Issue(PsCommands* commands, absl::Time now)
      : context_(commands->context_), next_due_(commands->next_due_), now_(now) {}

  // The state needs the command. Issues it if it is due; the next time is `again` later. Returns
  // null if it is not due, or if the ps is lost.
  template <typename Request>
  PsCommand* Want(uint32_t ps, absl::Duration again, Request request) {
    if (!context_.IsLivePs(ps)) return nullptr;
    const Member* member = context_.membership.Find(TaskId{Job::kPs, ps});
    PsCommand command{ps, member->address, context_.ps[ps].incarnation, {}};
    context_.FillIdentity(request.mutable_identity());
    command.request = std::move(request);
    const std::string key = CommandKey(command);
    wanted_.insert(key);
    absl::Time& due = next_due_.try_emplace(key, absl::InfinitePast()).first->second;
    if (now_ < due) return nullptr;
    due = now_ + again;
    commands_.push_back(std::move(command));
    return &commands_.back();
  }
  template <typename Request>
  PsCommand* Want(uint32_t ps, Request request) {
    return Want(ps, context_.options.resend, std::move(request));
  }

  // Returns the commands, and forgets those that are not needed any more.
  std::vector<PsCommand> Take() {
    for (auto it = next_due_.begin(); it != next_due_.end();) {
      it = wanted_.count(it->first) > 0 ? std::next(it) : next_due_.erase(it);
    }
    return std::move(commands_);
  }

 private:
  const SessionContext& context_;
  std::map<std::string, absl::Time>& next_due_;
  const absl::Time now_;
  std::vector<PsCommand> commands_;
  std::set<std::string> wanted_;
};

std::vector<PsCommand> PsCommands::Take(absl::Time now) {
  Issue issue(this, now);
  const RunPhases& phases = context_.phases;
  const bool is_preparing = phases.phase() == v1::RunState::PHASE_PREPARING;
  if (is_preparing || (phases.is_running() && context_.mode->reloads().LoadsWhileTraining())) {
    WantLoads(&issue);
  }
  if (phases.is_running()) {
    WantDecisions(&issue);
    WantCuts(&issue);
  } else if (phases.is_over() && !exports_.is_pending()) {
    WantFinishes(&issue);
  }
  return issue.Take();
}

v1::LoadSlicesRequest PsCommands::LoadRequest() const {
  const RunPlan& plan = *context_.plan;
  v1::LoadSlicesRequest request;
  context_.FillIdentity(request.mutable_identity());
  *request.mutable_run() = context_.options.run;
  for (const v1::VariableSpec& variable : plan.variables) *request.add_variables() = variable;
  *request.mutable_shard_map() = plan.shard_map;
  plan.steps.ToProto(request.mutable_plan());
  request.set_checkpoint(context_.cuts.durable_directory());
  for (const auto& [batch, reason] : context_.mode->skipped()) {
    *request.add_skipped() = ToProto(batch);
  }
  request.set_checkpoint_root(context_.options.checkpoint_root);
  request.set_token(context_.options.token);
  // A user's init_from takes the place of the values that a program gives.
  const uint64_t values = context_.model->initial_values();
  if (values != 0 && request.run().init_from().empty()) {
    request.mutable_run()->set_init_from(InitialValuesPath(context_.options.run.out(), values));
    for (const v1::VariableSpec& variable : plan.variables) {
      if (!variable.has_table()) continue;  // A program gives no rows.
      request.mutable_run()->add_init_map(
          absl::StrCat(absl::StrReplaceAll(variable.name(), {{".", "[.]"}}), "="));
    }
  }
  request.set_first_kept_epoch(context_.mode->first_kept_epoch());
  return request;
}

void PsCommands::WantLoads(Issue* issue) {
  const uint64_t lineage = context_.phases.lineage();
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    PsState& ps = context_.ps[i];
    if (ps.loaded_lineage == lineage) {
      for (const uint32_t epoch : context_.mode->reloads().EpochsToAsk(i)) {
        v1::GetAppliedRequest request;
        request.set_epoch(epoch);
        issue->Want(i, std::move(request));
      }
      continue;
    }
    if (!context_.mode->reloads().MayLoad()) continue;
    PsCommand* const load = issue->Want(i, context_.options.resend_load, v1::LoadSlicesRequest());
    if (load == nullptr) continue;
    // The request has one entry for each slice: it is filled in only when it is sent.
    load->request = LoadRequest();
    ps.asked_lineage = lineage;
  }
}

void PsCommands::WantDecisions(Issue* issue) const {
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

void PsCommands::WantCuts(Issue* issue) const {
  const auto ask_for_cut = [&](uint32_t ps, uint64_t version) {
    v1::RequestCutRequest request;
    request.set_version(version);
    request.set_first_kept_epoch(context_.mode->first_kept_epoch());
    issue->Want(ps, std::move(request));
  };
  const CutLedger& cuts = context_.cuts;
  for (const uint32_t ps : cuts.PsToAsk()) ask_for_cut(ps, cuts.requested_version());
  for (const CutLedger::Reminder& reminder : cuts.Reminders()) {
    ask_for_cut(reminder.ps, reminder.version);
  }
}

void PsCommands::WantFinishes(Issue* issue) const {
  const absl::Status why = GetFailure(context_.phases.state());
  for (uint32_t i = 0; i < context_.ps.size(); ++i) {
    if (context_.ps[i].finished) continue;
    v1::FinishRequest request;
    request.set_failure_code(static_cast<uint32_t>(why.code()));
    request.set_message(std::string(why.message()));
    issue->Want(i, std::move(request));
  }
}

void PsCommands::OnUndelivered(absl::Time now, const PsCommand& command) {
  MakeDue(command, now + context_.options.redeliver);
}

void PsCommands::OnLoadFailed(absl::Time now, const PsCommand& command) {
  MakeDue(command, now + context_.options.reload);
}

void PsCommands::MakeDue(const PsCommand& command, absl::Time due) {
  const auto it = next_due_.find(CommandKey(command));
  if (it != next_due_.end()) it->second = std::min(it->second, due);
}

}  // namespace shoal
