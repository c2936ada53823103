#include "ps/chief_reporter.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {
namespace {

constexpr size_t kMaxStepsInACall = 1000;

void ToProto(const SliceStoreEvents::Step& step, v1::StepReport* report) {
  report->set_step(step.step);
  report->set_loss_sum(step.loss_sum);
  report->set_regularization(step.regularization);
  report->set_correct(step.correct);
  report->set_examples(step.examples);
  report->set_learning_rate(step.learning_rate);
  report->set_epoch(step.epoch);
  report->set_staleness(step.staleness);
}

void ToProto(const SliceStoreEvents::Poisoned& poisoned, v1::PoisonedSlice* report) {
  report->set_slice(poisoned.slice);
  report->set_step(poisoned.step);
  report->set_learning_rate(poisoned.learning_rate);
}

}  // namespace

ChiefReporter::ChiefReporter(Options options) : options_(std::move(options)) {
  steps_.reserve(kMaxStepsInACall);  // so that adding does not allocate while the chief answers
  thread_ = std::thread([this] { Run(); });
}

ChiefReporter::~ChiefReporter() { Stop(); }

void ChiefReporter::StartLineage(uint64_t lineage, size_t num_norms) {
  MutexLock lock(&mutex_);
  lineage_ = lineage;
  num_norms_ = num_norms;
  steps_.clear();
  poisoned_.clear();
  norms_.clear();
}

void ChiefReporter::AddSteps(const std::vector<SliceStoreEvents::Step>& steps) {
  if (steps.empty()) return;
  MutexLock lock(&mutex_);
  steps_.insert(steps_.end(), steps.begin(), steps.end());
  changed_.NotifyAll();
}

void ChiefReporter::AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned) {
  if (poisoned.empty()) return;
  MutexLock lock(&mutex_);
  poisoned_.insert(poisoned_.end(), poisoned.begin(), poisoned.end());
  changed_.NotifyAll();
}

void ChiefReporter::AddNorms(const std::vector<SliceStoreEvents::Norm>& norms) {
  if (norms.empty()) return;
  MutexLock lock(&mutex_);
  for (const SliceStoreEvents::Norm& norm : norms) norms_[norm.step].push_back(norm);
  changed_.NotifyAll();
}

void ChiefReporter::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

bool ChiefReporter::HasWork() const {
  return !steps_.empty() || !poisoned_.empty() ||
         (!norms_.empty() && norms_.begin()->second.size() >= num_norms_);
}

void ChiefReporter::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && !HasWork()) changed_.Wait(&mutex_);
      if (stopping_) return;
    }
    // Norms first: a step waits for them.
    const Sent norms = SendNorms();
    const Sent steps = SendSteps();
    if (norms != Sent::kFailed && steps != Sent::kFailed) {
      backoff_.Reset();
      continue;
    }
    const absl::Time again = options_.clock->Now() + backoff_.Next();
    MutexLock lock(&mutex_);
    while (!stopping_ && options_.clock->WaitUntil(again, &mutex_, &changed_)) {
    }
  }
}

bool ChiefReporter::IsRefused(const absl::Status& status) {
  if (status.ok() || IsOutcomeUnknown(status)) return false;
  LOG(WARNING) << "the chief refuses a report: " << status;
  return true;
}

ChiefReporter::Sent ChiefReporter::SendSteps() {
  v1::ReportStepsRequest request;
  *request.mutable_identity() = options_.identity();
  size_t sent = 0;
  size_t sent_poisoned = 0;
  uint64_t lineage = 0;
  {
    MutexLock lock(&mutex_);
    if (steps_.empty() && poisoned_.empty()) return Sent::kNothing;
    lineage = lineage_;
    sent = std::min(steps_.size(), kMaxStepsInACall);
    for (size_t i = 0; i < sent; ++i) ToProto(steps_[i], request.add_steps());
    // The first one ends the run.
    sent_poisoned = poisoned_.size();
    if (sent_poisoned > 0) ToProto(poisoned_[0], request.add_poisoned());
  }
  request.mutable_identity()->set_lineage(lineage);
  v1::ReportStepsResponse response;
  const absl::Status status = options_.chief->ReportSteps(request, &response);
  if (!status.ok() && !IsRefused(status)) return Sent::kFailed;
  MutexLock lock(&mutex_);
  if (lineage_ != lineage) return Sent::kGood;
  steps_.erase(steps_.begin(), steps_.begin() + sent);
  poisoned_.erase(poisoned_.begin(), poisoned_.begin() + sent_poisoned);
  return Sent::kGood;
}

ChiefReporter::Sent ChiefReporter::SendNorms() {
  v1::ReportNormsRequest request;
  *request.mutable_identity() = options_.identity();
  uint64_t lineage = 0;
  {
    MutexLock lock(&mutex_);
    if (norms_.empty() || norms_.begin()->second.size() < num_norms_) return Sent::kNothing;
    lineage = lineage_;
    request.set_step(norms_.begin()->first);
    for (const SliceStoreEvents::Norm& norm : norms_.begin()->second) {
      request.add_slices(norm.slice);
      request.add_squared_norms(norm.squared_norm);
    }
  }
  request.mutable_identity()->set_lineage(lineage);
  v1::ReportNormsResponse response;
  const absl::Status status = options_.chief->ReportNorms(request, &response);
  if (!status.ok() && !IsRefused(status)) return Sent::kFailed;
  // The chief has waited for the others in vain: ask again.
  if (status.ok() && !response.ready()) return Sent::kGood;
  if (status.ok()) options_.apply_scale(lineage, request.step(), response.scale());
  MutexLock lock(&mutex_);
  if (lineage_ == lineage) norms_.erase(request.step());
  return Sent::kGood;
}

}  // namespace shoal
