#include "chief/session/session_context.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "base/log.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

// A worker tries a ps again every 2 s at most, and reports it with the next heartbeat: a shorter
// silence may be the end of a disturbance that is over, such as a pause of the chief.
constexpr absl::Duration kShortestSilence = absl::Seconds(6);

// The most batches to remember: more than workers compute between two steps, or hold in one lease.
constexpr size_t kMostBegun = 4096;

// The longest time for which signs alone keep the run alive.
constexpr absl::Duration kLongestWithSigns = absl::Hours(1);

uint64_t FirstLineage(const SessionOptions& options) {
  return options.manifest.has_value() ? options.manifest->lineage() + 1 : 1;
}

}  // namespace

void TrainingProgress::OnProgress(absl::Time now) {
  last_ = now;
  begun_.clear();
  first_sign_ = absl::InfiniteFuture();
}

void TrainingProgress::OnBatchBegun(absl::Time now, const BatchKey& batch) {
  if (begun_.size() < kMostBegun && begun_.insert(batch).second) last_ = now;
}

void TrainingProgress::OnSign(absl::Time now) {
  first_sign_ = std::min(first_sign_, now);
  if (now - first_sign_ <= kLongestWithSigns) last_sign_ = now;
}

SessionContext::SessionContext(SessionOptions session_options)
    : options(std::move(session_options)),
      phases(options.term, FirstLineage(options), IsSynchronous(options.run), &log),
      membership(Membership::Options{options.lease, options.grace, options.term}),
      reachability(std::max(options.lease, kShortestSilence)),
      ps(options.num_ps_tasks),
      cuts(options.num_ps_tasks) {
  CHECK_GT(options.lease, absl::ZeroDuration()) << "the run's times are not set";
  if (options.manifest.has_value()) {
    cuts.Restore(options.manifest->step(), options.manifest_directory);
  }
}

bool SessionContext::Serves(uint32_t index) const {
  return ps[index].loaded_lineage == phases.lineage() && mode->reloads().EpochsToAsk(index).empty();
}

uint32_t SessionContext::num_replicas() const { return options.run.deployment().num_replicas(); }

uint32_t SessionContext::reporter() const {
  const auto slice = static_cast<int>(plan->table.report_slice());
  return slice < plan->shard_map.owner_size() ? plan->shard_map.owner(slice) : 0;
}

void SessionContext::NoteGap(absl::Time now, uint64_t step, uint64_t newest) {
  log.NoteRefusal(now, absl::StrFormat("ps/%d reports step %d after step %d: it has to send those "
                                       "between them first",
                                       reporter(), step, newest));
}

bool SessionContext::EndsWithoutSteps() const {
  return phases.is_interrupted() &&
         (phases.steps_have_ended() || membership.Live(Job::kWorker).empty());
}

void SessionContext::EndAfterCheckpoint(const std::string& message, absl::StatusCode code,
                                        bool unless_trained) {
  phases.EndWith(message, code, unless_trained);
  if (phases.is_over()) return;
  mode->RequestCut();
}

void SessionContext::FinishInterrupted() { phases.Finish(/*at_end=*/false, LastCheckpoint()); }

std::string SessionContext::LastCheckpoint() const {
  if (!has_checkpoint()) return "There is no checkpoint yet";
  return absl::StrFormat("The last checkpoint is that of step %d, %s", cuts.durable_version(),
                         cuts.durable_directory());
}

void SessionContext::NameFigures(v1::StepReport* report) const {
  report->set_classifies(model->classifies());
  for (const v1::MetricSpec& metric : model->metrics()) report->add_metric_names(metric.name());
}

void SessionContext::FillIdentity(v1::Identity* identity) const {
  identity->set_run_id(options.run_id);
  identity->set_term(options.term);
  identity->mutable_member()->set_job(v1::JOB_CHIEF);
  identity->set_view(phases.state().view());
  identity->set_lineage(phases.lineage());
}

void SessionContext::SetMode(std::unique_ptr<TrainingMode> new_mode) {
  mode = std::move(new_mode);
  phases.SetMode(mode.get());
}

}  // namespace shoal
