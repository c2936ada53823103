#include "ps/chief_reporter.h"

#include <optional>
#include <utility>
#include <variant>

#include "proto/v1/chief_service.grpc.pb.h"

namespace shoal {

ChiefReporter::ChiefReporter(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Run(); });
}

ChiefReporter::~ChiefReporter() { Stop(); }

void ChiefReporter::StartLineage(uint64_t lineage, size_t num_norms) {
  MutexLock lock(&mutex_);
  logic_.StartLineage(lineage, num_norms);
  WakeIfDue();
}

void ChiefReporter::AddSteps(const std::vector<SliceStoreEvents::Step>& steps) {
  if (steps.empty()) return;
  MutexLock lock(&mutex_);
  logic_.AddSteps(steps);
  WakeIfDue();
}

void ChiefReporter::HurrySteps() {
  MutexLock lock(&mutex_);
  logic_.HurrySteps();
  WakeIfDue();
}

void ChiefReporter::AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned) {
  if (poisoned.empty()) return;
  MutexLock lock(&mutex_);
  logic_.AddPoisoned(poisoned);
  WakeIfDue();
}

void ChiefReporter::AddNorms(const std::vector<SliceStoreEvents::Norm>& norms) {
  if (norms.empty()) return;
  MutexLock lock(&mutex_);
  logic_.AddNorms(norms);
  WakeIfDue();
}

void ChiefReporter::WakeIfDue() {
  if (logic_.NextTime() < sleeps_until_ || !logic_.failure().ok()) changed_.NotifyAll();
}

void ChiefReporter::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ChiefReporter::Run() {
  ChiefReportLogic::Call call;
  while (WaitForCall(&call)) {
    std::visit([this](auto& request) { Send(&request); }, call);
  }
}

bool ChiefReporter::WaitForCall(ChiefReportLogic::Call* call) {
  absl::Status failure;
  {
    MutexLock lock(&mutex_);
    while (true) {
      if (stopping_) return false;
      failure = logic_.failure();
      if (!failure.ok()) break;
      std::optional<ChiefReportLogic::Call> next = logic_.Next(options_.clock->Now());
      if (next.has_value()) {
        *call = *std::move(next);
        return true;
      }
      sleeps_until_ = logic_.NextTime();
      options_.clock->WaitUntil(sleeps_until_, &mutex_, &changed_);
      sleeps_until_ = absl::InfinitePast();
    }
  }
  options_.on_failure(failure);
  return false;
}

void ChiefReporter::Identify(v1::Identity* identity) const {
  const uint64_t lineage = identity->lineage();
  *identity = options_.identity();
  identity->set_lineage(lineage);
}

void ChiefReporter::Send(v1::ReportStepsRequest* request) {
  Identify(request->mutable_identity());
  v1::ReportStepsResponse response;
  const absl::Status status =
      options_.chief->Call(&v1::ChiefService::Service::ReportSteps, *request, &response);
  MutexLock lock(&mutex_);
  logic_.OnAnswer(options_.clock->Now(), *request, status, response);
}

void ChiefReporter::Send(v1::ReportNormsRequest* request) {
  Identify(request->mutable_identity());
  v1::ReportNormsResponse response;
  const absl::Status status =
      options_.chief->Call(&v1::ChiefService::Service::ReportNorms, *request, &response);
  std::optional<ChiefReportLogic::Scale> scale;
  {
    MutexLock lock(&mutex_);
    scale = logic_.OnAnswer(options_.clock->Now(), *request, status, response);
  }
  if (!scale.has_value()) return;
  const absl::Status applied = options_.apply_scale(*scale);
  MutexLock lock(&mutex_);
  logic_.OnScaled(options_.clock->Now(), *scale, applied);
}

}  // namespace shoal
