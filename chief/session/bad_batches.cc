#include "chief/session/bad_batches.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/status_macros.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/config/optimizer_groups.h"
#include "runtime/process/program_words.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {
namespace {

// The number of consecutive skipped batches after which a run will not recover
// (docs/failure_model.md).
constexpr uint64_t kMostSkipsInARow = 20;

// Returns what lowers the learning rate of a variable: --learning_rate has no effect on a table
// whose optimizer has a learning rate of its own, or on the variables of such a group.
std::string SettingOfRate(const v1::VariableSpec& variable, const v1::RunConfig& run) {
  if (!variable.has_table()) {
    const auto groups = OptimizerGroups::Create(run.optimizer());
    const std::optional<size_t> group = groups.ok() ? groups->Find(variable.name()) : std::nullopt;
    const bool is_its_own =
        group.has_value() && run.optimizer().group(static_cast<int>(*group)).has_learning_rate();
    return is_its_own ? absl::StrCat("optimizer.group[", *group, "].learning_rate")
                      : "--learning_rate";
  }
  const v1::TableSpec& table = variable.table();
  const std::string own =
      absl::StrCat("learning_rate in table { name: \"", variable.name(), "\" optimizer }");
  const bool may_be_the_runs = !table.has_optimizer() ||
                               table.optimizer().learning_rate() == run.optimizer().learning_rate();
  return may_be_the_runs ? absl::StrCat("--learning_rate, or ", own, " if the table has one,")
                         : own;
}

}  // namespace

BadBatches::BadBatches(SessionContext* context, Admission* admission)
    : context_(*context), admission_(*admission), decisions_(context->options.num_ps_tasks) {
  if (!context_.options.manifest.has_value()) return;
  std::vector<BatchKey> skipped;
  for (const v1::SkippedBatch& skip : context_.options.manifest->skipped()) {
    skipped.push_back(ToBatchKey(skip.batch()));
  }
  decisions_.RestoreSkips(skipped);
}

absl::Status BadBatches::Report(absl::Time now, const v1::ReportBadBatchRequest& request) {
  BadBatchReport report;
  report.batch = ToBatchKey(request.batch());
  report.incarnation = request.identity().incarnation();
  if (request.has_died()) {
    RETURN_IF_ERROR(admission_.CheckRun(request.identity()));
    report.worker = ToTaskId(request.died());
    if (report.worker.job != Job::kWorker) {
      return absl::InvalidArgumentError("died: only workers compute batches");
    }
    RETURN_IF_ERROR(admission_.issued().Check(report.worker, report.incarnation));
    context_.membership.Disconnect(now, report.worker, report.incarnation);
    report.detail = absl::StrCat(report.worker.ToString(), " crashed on it: ", request.detail());
  } else {
    RETURN_IF_ERROR(admission_.CheckReport(now, request.identity(), Job::kWorker));
    report.worker = ToTaskId(request.identity().member());
    report.is_certain = request.reason() == v1::ReportBadBatchRequest::REASON_NON_FINITE;
    report.detail = request.detail();
  }
  if (context_.plan == nullptr || !context_.plan->steps.Covers(report.batch)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: this run has no ", ToString(report.batch), " to compute"));
  }
  if (request.has_died()) {
    RETURN_IF_ERROR(
        admission_.issued().RecordDeath(report.worker, report.incarnation, report.batch));
  }
  context_.mode->ReportBadBatch(report);
  return absl::OkStatus();
}

absl::Status BadBatches::ReportPoisoned(const v1::PoisonedSlice& poisoned) {
  if (context_.plan == nullptr || poisoned.slice() >= context_.plan->table.size()) {
    return absl::InvalidArgumentError("poisoned.slice: there is no such slice");
  }
  const RunPlan& plan = *context_.plan;
  const v1::VariableSpec& variable = plan.variables[plan.table[poisoned.slice()].variable];
  if (variable.has_table() && poisoned.step() > kMostTableUpdates) {
    context_.phases.Fail(absl::StrFormat(
        "table %s has had %d updates, the most that a table can have; train it further in a new "
        "run with --init_state --init_from=DIRECTORY of this run. %s",
        variable.name(), poisoned.step() - 1, context_.LastCheckpoint()));
    return absl::OkStatus();
  }
  context_.phases.Fail(absl::StrFormat("%s %s%s%d: %s%s%s (%g there) or clip gradients. %s",
                                       variable.has_table() ? "table" : "variable", variable.name(),
                                       kNotFiniteAfterUpdate, poisoned.step(), kDiverges, kLower,
                                       SettingOfRate(variable, context_.options.run),
                                       poisoned.learning_rate(), context_.LastCheckpoint()));
  return absl::OkStatus();
}

void BadBatches::OnWithheld(const PsCommand& command, const v1::WithholdBatchResponse& response) {
  const auto& request = std::get<v1::WithholdBatchRequest>(command.request);
  if (request.identity().lineage() != context_.phases.lineage() || response.ignored()) return;
  decisions_.OnWithheld(command.ps, ToBatchKey(request.batch()), request.number(),
                        response.all_have(), response.none_has());
}

void BadBatches::OnDecisionAcknowledged(const PsCommand& command) {
  const auto& request = std::get<v1::DecideBatchRequest>(command.request);
  if (request.identity().lineage() != context_.phases.lineage()) return;
  decisions_.OnDecisionAcknowledged(command.ps, ToBatchKey(request.batch()), request.number());
}

std::string BadBatches::Decide() {
  const uint64_t changes = decisions_.changes();
  const bool rollback = decisions_.Decide();
  Publish();
  if (decisions_.changes() != changes) EndIfDiverging(decisions_.skipped());
  return rollback ? "a batch that is skipped for good had been applied in part" : "";
}

void BadBatches::OnPlan() {
  if (!context_.plan->other_batches_from.has_value()) return;
  decisions_.ForgetSkipsFrom(*context_.plan->other_batches_from);
  Publish();
}

void BadBatches::NoteSkipped(const std::map<BatchKey, std::string>& skipped) {
  // A run that begins knows its batches from the checkpoint.
  if (!context_.phases.is_running()) return;
  std::set<BatchKey> known;
  for (const v1::BatchId& batch : context_.phases.state().skipped())
    known.insert(ToBatchKey(batch));
  for (const auto& [batch, reason] : skipped) {
    if (known.count(batch) > 0) continue;
    context_.last_skipped = absl::StrCat(ToString(batch), " is skipped: ", reason);
    context_.log.NoteSkip(context_.last_skipped);
  }
}

void BadBatches::Publish() {
  const std::map<BatchKey, std::string>& skipped = context_.mode->skipped();
  const std::pair<uint64_t, size_t> changes(decisions_.changes(), skipped.size());
  if (published_ == changes) return;
  published_ = changes;
  v1::RunState* state = context_.phases.mutable_state();
  NoteSkipped(skipped);
  state->clear_skipped();
  state->clear_delivered();
  for (const auto& [batch, reason] : skipped) *state->add_skipped() = ToProto(batch);
  for (const BatchKey& batch : decisions_.delivered()) *state->add_delivered() = ToProto(batch);
  context_.phases.Changed();
}

void BadBatches::EndIfDiverging(const std::map<BatchKey, std::string>& skipped) {
  if (MostSkippedInARow(skipped) < kMostSkipsInARow) return;
  context_.EndAfterCheckpoint(absl::StrFormat(
      "the limit of %d%s%s, or the data have values that are not finite; lower --learning_rate, "
      "clip gradients, or check the data",
      kMostSkipsInARow, kLimitOfBadBatches, kDiverges));
}

}  // namespace shoal
