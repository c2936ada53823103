#include "ps/chief_report_logic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "runtime/rpc/norms_call.h"
#include "runtime/variables/metric_messages.h"

namespace shoal {
namespace {

constexpr size_t kMaxStepsInACall = 1000;
constexpr absl::Duration kWarnEvery = absl::Seconds(10);

void ToProto(const SliceStoreEvents::Step& step, v1::StepReport* report) {
  report->set_step(step.step);
  report->set_loss_sum(step.loss_sum);
  report->set_regularization(step.regularization);
  report->set_correct(step.correct);
  report->set_examples(step.examples);
  report->set_learning_rate(step.learning_rate);
  report->set_epoch(step.epoch);
  report->set_staleness(step.staleness);
  ToProto(step.metrics, report->mutable_metrics());
}

void ToProto(const SliceStoreEvents::Poisoned& poisoned, v1::PoisonedSlice* report) {
  report->set_slice(poisoned.slice);
  report->set_step(poisoned.step);
  report->set_learning_rate(poisoned.learning_rate);
}

}  // namespace

ChiefReportLogic::ChiefReportLogic(Options options) : options_(options) {
  steps_.reserve(kMaxStepsInACall);  // so that adding does not allocate while the chief answers
}

void ChiefReportLogic::StartLineage(uint64_t lineage, size_t num_norms) {
  lineage_ = lineage;
  num_norms_ = num_norms;
  steps_.clear();
  poisoned_.clear();
  norms_.clear();
  norms_reported_ = 0;
  next_report_ = absl::InfinitePast();
  must_hurry_ = false;
  steps_attempts_.Reset();
  norms_attempts_.Reset();
}

void ChiefReportLogic::AddSteps(const std::vector<SliceStoreEvents::Step>& steps) {
  steps_.insert(steps_.end(), steps.begin(), steps.end());
  if (steps_.size() > options_.most_steps) {
    FailWith(absl::StrCat("the chief has not acknowledged the reports of ", steps_.size(),
                          " steps, from ", steps_.front().step, " on"));
  }
}

void ChiefReportLogic::AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned) {
  poisoned_.insert(poisoned_.end(), poisoned.begin(), poisoned.end());
}

void ChiefReportLogic::AddNorms(const std::vector<SliceStoreEvents::Norm>& norms) {
  for (const SliceStoreEvents::Norm& norm : norms) norms_[norm.step].push_back(norm);
}

absl::Time ChiefReportLogic::StepsDue() const {
  const bool may_wait = !must_hurry_ && poisoned_.empty() && steps_.size() < kMaxStepsInACall;
  return may_wait ? std::max(steps_attempts_.due, next_report_) : steps_attempts_.due;
}

std::optional<ChiefReportLogic::Call> ChiefReportLogic::Next(absl::Time now) {
  const bool has_steps = HasSteps() && now >= StepsDue();
  const bool has_norms = HasNorms() && now >= norms_attempts_.due;
  // Norms first: a step waits for them. The chief may keep the call for a second, so that steps
  // come next.
  if (has_norms && !(has_steps && norms_were_last_)) {
    norms_were_last_ = true;
    return NormsRequest();
  }
  if (!has_steps) return std::nullopt;
  norms_were_last_ = false;
  must_hurry_ = false;
  next_report_ = now + options_.steps_period;
  return StepsRequest();
}

absl::Time ChiefReportLogic::NextTime() const {
  absl::Time next = absl::InfiniteFuture();
  if (HasSteps()) next = std::min(next, StepsDue());
  if (HasNorms()) next = std::min(next, norms_attempts_.due);
  return next;
}

v1::ReportStepsRequest ChiefReportLogic::StepsRequest() const {
  v1::ReportStepsRequest request;
  request.mutable_identity()->set_lineage(lineage_);
  const size_t sent = std::min(steps_.size(), kMaxStepsInACall);
  for (size_t i = 0; i < sent; ++i) ToProto(steps_[i], request.add_steps());
  // The first one ends the run.
  if (!poisoned_.empty()) ToProto(poisoned_[0], request.add_poisoned());
  return request;
}

v1::ReportNormsRequest ChiefReportLogic::NormsRequest() const {
  v1::ReportNormsRequest request;
  request.mutable_identity()->set_lineage(lineage_);
  request.set_step(norms_.begin()->first);
  const std::vector<SliceStoreEvents::Norm>& norms = norms_.begin()->second;
  const size_t end = std::min(norms.size(), norms_reported_ + kMostNormsInACall);
  for (size_t i = norms_reported_; i < end; ++i) {
    request.add_slices(norms[i].slice);
    request.add_squared_norms(norms[i].squared_norm);
  }
  return request;
}

void ChiefReportLogic::OnAnswer(absl::Time now, const v1::ReportStepsRequest& request,
                                const absl::Status& status,
                                const v1::ReportStepsResponse& response) {
  if (request.identity().lineage() != lineage_) return;
  if (!status.ok()) return Failed(now, status, &steps_attempts_);
  if (request.poisoned_size() > 0) poisoned_.clear();
  const uint64_t newest = response.newest_step();
  const uint64_t first = request.steps_size() == 0 ? 1 : request.steps(0).step();
  if (newest < first - 1) {
    return FailWith(absl::StrCat("the chief lacks the reports of steps ", newest + 1, " to ",
                                 first - 1, ", which this ps does not have"));
  }
  const auto end = steps_.begin() + std::min<size_t>(steps_.size(), request.steps_size());
  const auto taken = std::find_if(
      steps_.begin(), end, [newest](const SliceStoreEvents::Step& s) { return s.step > newest; });
  const bool took_something = taken != steps_.begin() || request.steps_size() == 0;
  steps_.erase(steps_.begin(), taken);
  if (took_something) return steps_attempts_.Reset();
  Failed(now, absl::UnavailableError("the chief accepted none of the steps"), &steps_attempts_);
}

std::optional<ChiefReportLogic::Scale> ChiefReportLogic::OnAnswer(
    absl::Time now, const v1::ReportNormsRequest& request, const absl::Status& status,
    const v1::ReportNormsResponse& response) {
  if (request.identity().lineage() != lineage_) return std::nullopt;
  if (!status.ok()) {
    Failed(now, status, &norms_attempts_);
    return std::nullopt;
  }
  if (response.ready()) return Scale{lineage_, request.step(), response.scale()};
  // Others follow, or the chief did not receive the other ps's norms in time: it is asked again.
  if (request.slices_size() == kMostNormsInACall) norms_reported_ += kMostNormsInACall;
  norms_attempts_.Reset();
  return std::nullopt;
}

void ChiefReportLogic::OnScaled(absl::Time now, const Scale& scale, const absl::Status& status) {
  if (scale.lineage != lineage_) return;
  if (!status.ok()) return Failed(now, status, &norms_attempts_);
  norms_attempts_.Reset();
  norms_.erase(scale.step);
  norms_reported_ = 0;
}

void ChiefReportLogic::Failed(absl::Time now, const absl::Status& status, Attempts* attempts) {
  attempts->due = now + attempts->backoff.Next();
  // ABORTED: the lineage or this task is over. Both arrive by another way, and end the attempts.
  if (IsOutcomeUnknown(status) || absl::IsAborted(status)) {
    attempts->refused_since = absl::InfiniteFuture();
    return;
  }
  if (now >= attempts->warn) {
    attempts->warn = now + kWarnEvery;
    LOG(WARNING) << "the chief refuses a report, which will be sent again: " << status;
  }
  attempts->refused_since = std::min(attempts->refused_since, now);
  if (now - attempts->refused_since >= options_.refused_patience) {
    FailWith(absl::StrCat("the chief has refused a report for ",
                          absl::FormatDuration(options_.refused_patience), ": ",
                          status.ToString()));
  }
}

void ChiefReportLogic::FailWith(const std::string& why) {
  if (!failure_.ok()) return;
  failure_ = absl::UnavailableError(
      absl::StrCat(why, "; this ps ends, and a restarted one resumes from the newest checkpoint"));
}

}  // namespace shoal
