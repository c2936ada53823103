#include "worker/stepping_trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/run_state.h"
#include "runtime/variables/metric_messages.h"
#include "worker/replica/batch_crash.h"
#include "worker/summary_writer.h"
#include "worker/worker_metrics.h"

namespace shoal {
namespace {

StoreView StoreViewOf(const v1::RunState& state, uint64_t term) {
  StoreView view;
  view.term = term;
  view.view = state.view();
  view.lineage = state.lineage();
  view.ps_addresses.assign(state.ps_addresses().begin(), state.ps_addresses().end());
  view.ps_incarnations.assign(state.ps_incarnations().begin(), state.ps_incarnations().end());
  return view;
}

PrefetcherOptions ReadWith(int threads) {
  PrefetcherOptions options;
  options.threads = threads;
  return options;
}

}  // namespace

SteppingTrainer::SteppingTrainer(const TrainerOptions& options)
    : options_(options),
      train_batches_(*options.train, options.train_plan, ReadWith(options.train_threads)),
      test_batches_(options.test != nullptr ? *options.test : *options.train, options.test_plan,
                    ReadWith(options.test_threads)) {
  const size_t most = options_.store->groups().size() * VariableStore::kMaxExchangesPerGroup;
  for (size_t i = 0; i < most; ++i) {
    flights_.push_back(std::make_unique<Flight>());
    flights_.back()->trainer = this;
  }
}

SteppingTrainer::~SteppingTrainer() = default;

void SteppingTrainer::OnState(const v1::RunState& state) {
  MutexLock lock(&mutex_);
  new_state_ = state;
  Wake();
}

void SteppingTrainer::TakeState() {
  std::optional<v1::RunState> state;
  {
    MutexLock lock(&mutex_);
    state = std::exchange(new_state_, std::nullopt);
  }
  if (!state.has_value()) return;
  if (IsOver(*state)) {
    MutexLock lock(&mutex_);
    end_ = FailureOf(*state);
    return;
  }
  lineage_ = state->lineage();
  // The store first: it may end exchanges of the old view, whose callbacks take the mutex, and
  // after TakeView nothing may go to a former ps.
  options_.store->SetView(StoreViewOf(*state, options_.identity().term()));
  MutexLock lock(&mutex_);
  TakeView(*state);
}

absl::Status SteppingTrainer::Run() {
  absl::Time idle_since = options_.clock->Now();
  while (true) {
    TakeState();
    {
      MutexLock lock(&mutex_);
      if (end_.has_value()) return *end_;
      if (!error_.ok()) return error_;
      const std::optional<absl::Time> wake = PlanNext(options_.clock->Now());
      if (wake.has_value()) {
        while (!woken_ && options_.clock->WaitUntil(*wake, &mutex_, &changed_)) {
        }
        woken_ = false;
        continue;
      }
    }
    if (options_.metrics != nullptr) {
      options_.metrics->barrier_seconds.Observe(
          absl::ToDoubleSeconds(options_.clock->Now() - idle_since));
    }
    Execute();
    idle_since = options_.clock->Now();
  }
}

void SteppingTrainer::Start(const Exchange& exchange, uint64_t ticket) {
  Flight* flight = nullptr;
  {
    MutexLock lock(&mutex_);
    for (auto& candidate : flights_) {
      if (!candidate->used) {
        flight = candidate.get();
        break;
      }
    }
    CHECK(flight != nullptr) << "more exchanges under way than a store allows";
    flight->used = true;
    flight->ticket = ticket;
    flight->group = exchange.group;
  }
  options_.store->Start(exchange, [flight](const ExchangeResult& result) {
    flight->trainer->OnDone(flight, result);
  });
}

void SteppingTrainer::OnDone(Flight* flight, const ExchangeResult& result) {
  MutexLock lock(&mutex_);
  OnExchange(flight->ticket, flight->group, result);
  if (error_.ok()) error_ = HopelessExchange(result);
  flight->used = false;
  Wake();
}

void SteppingTrainer::Train(const Work& work, absl::FunctionRef<void()> read_ahead,
                            Replica::OnGroup on_group) {
  const ComputeCount::Scope computing(&computed_);
  const absl::Time begin = options_.clock->Now();
  MarkBatch(options_, work.batch);
  absl::StatusOr<const LoadedBatch*> loaded =
      train_batches_.Take(work.batch.epoch, static_cast<int64_t>(work.batch.index));
  absl::Status status = loaded.status();
  if (status.ok()) {
    const absl::Time read = options_.clock->Now();
    read_ahead();
    options_.replica->Expect(work.step - 1, work.next);
    status = options_.replica->Train(**loaded, work.parameter_set, work.contribution_set, on_group);
    CountBatch(**loaded, read - begin, options_.clock->Now() - begin);
    train_batches_.Release(*loaded);
    if (options_.mark != nullptr) options_.mark->Clear();
    if (status.ok() && options_.summaries != nullptr) {
      options_.summaries->Offer(work.step,
                                [&] { return options_.replica->Summaries(work.contribution_set); });
    }
  }
  if (IsBatchCrash(status)) ReportCrash(work.batch, work.step, status);
  MutexLock lock(&mutex_);
  if (!status.ok()) error_ = status;
}

void SteppingTrainer::CountBatch(const LoadedBatch& batch, absl::Duration reading,
                                 absl::Duration all) {
  if (options_.metrics == nullptr) return;
  options_.metrics->batches.Add();
  options_.metrics->examples.Add(static_cast<uint64_t>(batch.num_examples));
  options_.metrics->read_seconds.Observe(absl::ToDoubleSeconds(reading));
  options_.metrics->step_seconds.Observe(absl::ToDoubleSeconds(all));
}

bool SteppingTrainer::CallChief(absl::FunctionRef<absl::Status()> call) {
  const absl::Status status = CallUntilAnswered(
      options_.clock,
      [this] {
        MutexLock lock(&mutex_);
        return new_state_.has_value() && IsOver(*new_state_);
      },
      call);
  if (status.ok() || absl::IsAborted(status)) return true;
  MutexLock lock(&mutex_);
  error_ = status;
  return false;
}

bool SteppingTrainer::EvaluateBlock(uint64_t lineage, uint64_t version, uint64_t block,
                                    uint32_t parameter_set) {
  BatchResult result;
  absl::Status status;
  {
    const ComputeCount::Scope computing(&computed_);
    absl::StatusOr<const LoadedBatch*> batch = test_batches_.Take(0, static_cast<int64_t>(block));
    status = batch.status();
    if (batch.ok()) {
      status = options_.replica->Evaluate(**batch, parameter_set, &result);
      test_batches_.Release(*batch);
      if (options_.metrics != nullptr) options_.metrics->evaluation_blocks.Add();
    }
  }
  if (!status.ok()) {
    MutexLock lock(&mutex_);
    error_ = status;
    return false;
  }
  v1::ReportEvaluationRequest request;
  *request.mutable_identity() = options_.identity();
  request.mutable_identity()->set_lineage(lineage);
  request.set_version(version);
  request.set_block(block);
  request.set_loss_sum(result.loss_sum);
  request.set_correct(result.correct);
  request.set_examples(result.examples);
  ToProto(result.metrics, request.mutable_metrics());
  v1::ReportEvaluationResponse response;
  return CallChief([&] {
    return options_.chief->Call(&v1::ChiefService::Service::ReportEvaluation, request, &response);
  });
}

void SteppingTrainer::ReportCrash(const BatchKey& batch, uint64_t step, const absl::Status& crash) {
  v1::ReportBadBatchRequest request;
  *request.mutable_identity() = options_.identity();
  request.mutable_identity()->set_lineage(lineage_);
  *request.mutable_batch() = ToProto(batch);
  request.set_step(step);
  request.set_reason(v1::ReportBadBatchRequest::REASON_CRASH);
  request.set_detail(
      absl::StrCat("worker/", options_.worker, " reports a crash on it: ", crash.message()));
  v1::ReportBadBatchResponse response;
  CallChief([&] {
    return options_.chief->Call(&v1::ChiefService::Service::ReportBadBatch, request, &response);
  });
}

bool SteppingTrainer::ReportNonFinite(uint64_t lineage, const BatchKey& batch, uint64_t step) {
  LOG(WARNING) << "batch " << batch.index << " of epoch " << batch.epoch << " is not finite";
  if (options_.metrics != nullptr) options_.metrics->non_finite_batches.Add();
  v1::ReportBadBatchRequest request;
  *request.mutable_identity() = options_.identity();
  request.mutable_identity()->set_lineage(lineage);
  *request.mutable_batch() = ToProto(batch);
  request.set_step(step);
  request.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
  request.set_detail("gradient or loss is not finite");
  v1::ReportBadBatchResponse response;
  return CallChief([&] {
    return options_.chief->Call(&v1::ChiefService::Service::ReportBadBatch, request, &response);
  });
}

}  // namespace shoal
