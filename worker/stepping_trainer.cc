#include "worker/stepping_trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/run_state.h"
#include "runtime/variables/metric_messages.h"
#include "worker/replica/asked_rows.h"
#include "worker/replica/batch_crash.h"
#include "worker/replica/row_sets.h"
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

// The time between two checks of whether the program of a waiting worker has ended.
constexpr absl::Duration kProgramCheckPeriod = absl::Milliseconds(100);

// The ticket of exchanges that no step logic has started; those of step logics count from 1.
constexpr uint64_t kRowsTicket = 0;

PrefetcherOptions ReadWith(int threads, const Replica* replica) {
  PrefetcherOptions options;
  options.threads = threads;
  if (replica->rows() != nullptr && replica->asked_rows() == nullptr) {
    options.make_digest = [replica] { return replica->MakeDigest(); };
  }
  return options;
}

}  // namespace

SteppingTrainer::SteppingTrainer(const TrainerOptions& options)
    : options_(options),
      computed_(options.progress_period),
      train_batches_(*options.train, options.train_plan,
                     ReadWith(options.train_threads, options.replica)),
      test_batches_(options.test != nullptr ? *options.test : *options.train, options.test_plan,
                    ReadWith(options.test_threads, options.replica)) {
  const size_t most = options_.store->groups().size() * VariableStore::kMaxExchangesPerGroup;
  for (size_t i = 0; i < most; ++i) {
    flights_.push_back(std::make_unique<Flight>());
    flights_.back()->trainer = this;
  }
  options_.replica->ReportProgressTo([this] { computed_.OnProgress(options_.clock->Now()); });
}

SteppingTrainer::~SteppingTrainer() { options_.replica->ReportProgressTo(nullptr); }

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
    end_ = GetFailure(*state);
    return;
  }
  lineage_ = state->lineage();
  // The store first: it may end exchanges of the old view, whose callbacks take the mutex, and
  // after TakeView nothing may go to a former ps.
  options_.store->SetView(StoreViewOf(*state, options_.identity().term()));
  MutexLock lock(&mutex_);
  TakeView(*state);
}

bool SteppingTrainer::ProgramHasEnded() {
  if (!options_.replica->may_end()) return false;
  const absl::Time now = options_.clock->Now();
  if (now < next_check_) return false;
  next_check_ = now + kProgramCheckPeriod;
  return options_.replica->HasEnded();
}

void SteppingTrainer::WaitUntil(absl::Time wake) {
  if (options_.replica->may_end()) wake = std::min(wake, next_check_);
  if (wake == absl::InfiniteFuture()) {
    while (!woken_) changed_.Wait(&mutex_);
  } else {
    while (!woken_ && options_.clock->WaitUntil(wake, &mutex_, &changed_)) {
    }
  }
  woken_ = false;
}

absl::Status SteppingTrainer::Run() {
  absl::Time idle_since = options_.clock->Now();
  while (true) {
    TakeState();
    {
      MutexLock lock(&mutex_);
      if (end_.has_value()) return *end_;  // A program may end together with the run.
    }
    // The worker need not wait for its next batch to notice that it cannot compute it.
    if (ProgramHasEnded()) {
      const absl::Status why = options_.replica->CheckIdle();
      if (!why.ok()) return why;  // OK: the program's last words are read first.
    }
    {
      MutexLock lock(&mutex_);
      if (!error_.ok()) return error_;
      const std::optional<absl::Time> wake = PlanNext(options_.clock->Now());
      if (wake.has_value()) {
        WaitUntil(*wake);
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
  if (flight->ticket == kRowsTicket) {
    TakeRows(result);
  } else {
    OnExchange(flight->ticket, flight->group, result);
  }
  if (error_.ok()) {
    error_ = FatalErrorOf(options_.store->groups()[flight->group].ps, result);
  }
  flight->used = false;
  Wake();
}

void SteppingTrainer::SetPull(uint32_t parameter_set, uint64_t lineage, Exchange* exchange) {
  exchange->pull = true;
  if (options_.store->groups()[exchange->group].buckets) {
    exchange->pull_rows = options_.replica->rows()->pulls(parameter_set, exchange->group);
  } else {
    exchange->pull_data = options_.replica->pull_data(parameter_set, exchange->group, lineage);
  }
}

void SteppingTrainer::PrepareRows(uint32_t parameter_set, const std::optional<BatchKey>& next) {
  RowSets* const rows = options_.replica->rows();
  // An error counts when the batch is computed.
  const auto prepare = [rows, parameter_set](const BatchKeys* keys) {
    rows->Prepare(parameter_set, keys != nullptr && rows->CheckFits(*keys).ok() ? keys : nullptr);
  };
  if (!next.has_value()) return prepare(nullptr);
  if (const AskedRows* const asked = options_.replica->asked_rows(); asked != nullptr) {
    return prepare(asked->KeysAhead(*next));
  }
  const absl::StatusOr<const LoadedBatch*> batch = TakeTrainBatch(*next);
  prepare(batch.ok() ? &GetKeys(**batch) : nullptr);
  if (batch.ok()) ahead_ = *batch;
}

absl::StatusOr<const LoadedBatch*> SteppingTrainer::TakeTrainBatch(const BatchKey& batch) {
  const auto index = static_cast<int64_t>(batch.index);
  if (const LoadedBatch* const ahead = std::exchange(ahead_, nullptr); ahead != nullptr) {
    if (ahead->epoch == batch.epoch && ahead->index == index) return ahead;
    train_batches_.Release(ahead);
  }
  return train_batches_.Take(batch.epoch, index);
}

bool SteppingTrainer::PullRows(const BatchKeys& keys, uint32_t row_set, uint64_t lineage,
                               uint64_t version) {
  const std::vector<ExchangeGroup>& groups = options_.store->groups();
  const bool is_evaluated = row_set == RowSets::kEvaluationSet;
  if (absl::Status status = options_.replica->rows()->CheckFits(keys, is_evaluated); !status.ok()) {
    MutexLock lock(&mutex_);
    error_ = std::move(status);
    return false;
  }
  options_.replica->rows()->Prepare(row_set, &keys);
  const ComputeCount::Pause waiting(&computed_);
  const absl::Time begin = options_.clock->Now();
  while (true) {
    {
      MutexLock lock(&mutex_);
      row_pulls_left_ = static_cast<uint32_t>(std::count_if(
          groups.begin(), groups.end(), [](const ExchangeGroup& group) { return group.buckets; }));
      rows_version_ = version;
      rows_are_late_ = rows_are_gone_ = false;
    }
    for (uint32_t g = 0; g < groups.size(); ++g) {
      if (!groups[g].buckets) continue;
      Exchange exchange;
      exchange.group = g;
      exchange.lineage = lineage;
      exchange.pull_version = version;
      exchange.park = absl::Seconds(1);
      SetPull(row_set, lineage, &exchange);
      Start(exchange, kRowsTicket);
    }
    while (true) {
      // A new state of the run may replace a ps that the exchanges wait for, or end them.
      TakeState();
      // A program that computes has asked for the rows; Replica::Train then returns why it ended.
      if (ProgramHasEnded()) return false;
      MutexLock lock(&mutex_);
      if (end_.has_value() || !error_.ok()) return false;
      if (row_pulls_left_ == 0) break;
      WaitUntil(absl::InfiniteFuture());
    }
    MutexLock lock(&mutex_);
    if (rows_are_gone_ || !rows_are_late_) {
      if (options_.metrics != nullptr && !is_evaluated) {
        options_.metrics->row_wait_seconds.Observe(
            absl::ToDoubleSeconds(options_.clock->Now() - begin));
      }
      if (rows_are_gone_) options_.replica->rows()->Prepare(row_set, nullptr);
      return !rows_are_gone_;
    }
  }
}

void SteppingTrainer::TakeRows(const ExchangeResult& result) {
  --row_pulls_left_;
  if (!result.status.ok()) rows_are_gone_ = true;
  for (const PulledSlice& bucket : result.pulls) {
    if (bucket.has_value) continue;
    (bucket.version >= rows_version_ ? rows_are_gone_ : rows_are_late_) = true;
  }
}

bool SteppingTrainer::Train(const Work& work, absl::FunctionRef<void()> read_ahead,
                            Replica::OnGroup on_group) {
  const ComputeCount::Scope computing(&computed_);
  const absl::Time begin = options_.clock->Now();
  MarkBatch(options_, work.batch);
  const absl::StatusOr<const LoadedBatch*> loaded = TakeTrainBatch(work.batch);
  absl::Status status = loaded.status();
  if (status.ok()) {
    const absl::Time read = options_.clock->Now();
    read_ahead();
    const RowSets* const rows = options_.replica->rows();
    AskedRows* const asked = options_.replica->asked_rows();
    if (asked != nullptr) {
      asked->Begin(**loaded, work.parameter_set, [this, &work](const BatchKeys& keys) {
        return PullRows(keys, work.parameter_set, work.lineage, work.version);
      });
    } else if (rows != nullptr && !rows->IsPreparedFor(work.parameter_set, GetKeys(**loaded)) &&
               !PullRows(GetKeys(**loaded), work.parameter_set, work.lineage, work.version)) {
      train_batches_.Release(*loaded);
      if (options_.mark != nullptr) options_.mark->Clear();
      return false;
    }
    options_.replica->Expect(work.step - 1, work.next);
    status = options_.replica->Train(**loaded, work.parameter_set, work.contribution_set, on_group);
    CountBatch(**loaded, read - begin, options_.clock->Now() - begin);
    train_batches_.Release(*loaded);
    if (options_.mark != nullptr) options_.mark->Clear();
    if (status.ok() && asked != nullptr && asked->are_gone()) return false;
    if (status.ok() && options_.summaries != nullptr) {
      options_.summaries->Offer(work.step,
                                [&] { return options_.replica->Summaries(work.contribution_set); });
    }
  }
  if (IsBatchCrash(status)) ReportCrash(work.batch, work.step, status);
  MutexLock lock(&mutex_);
  if (!status.ok()) error_ = status;
  return true;
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

SteppingTrainer::Evaluation SteppingTrainer::EvaluateBlock(uint64_t lineage, uint64_t version,
                                                           uint64_t block, uint32_t parameter_set) {
  BatchResult result;
  absl::Status status;
  {
    const ComputeCount::Scope computing(&computed_);
    absl::StatusOr<const LoadedBatch*> batch = test_batches_.Take(0, static_cast<int64_t>(block));
    status = batch.status();
    if (batch.ok()) {
      const auto pull = [&](const BatchKeys& keys) {
        return PullRows(keys, RowSets::kEvaluationSet, lineage, version);
      };
      AskedRows* const asked = options_.replica->asked_rows();
      if (asked != nullptr) {
        asked->Begin(**batch, RowSets::kEvaluationSet, pull);
      } else if (options_.replica->rows() != nullptr && !pull(GetKeys(**batch))) {
        test_batches_.Release(*batch);
        return Evaluation::kNoRows;
      }
      status = options_.replica->Evaluate(**batch, parameter_set, &result);
      test_batches_.Release(*batch);
      if (status.ok() && asked != nullptr && asked->are_gone()) return Evaluation::kNoRows;
      if (options_.metrics != nullptr) options_.metrics->evaluation_blocks.Add();
    }
  }
  if (!status.ok()) {
    MutexLock lock(&mutex_);
    error_ = status;
    return Evaluation::kEnd;
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
  const bool reported = CallChief([&] {
    return options_.chief->Call(&v1::ChiefService::Service::ReportEvaluation, request, &response);
  });
  return reported ? Evaluation::kReported : Evaluation::kEnd;
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
  LOG(WARNING) << ToString(batch) << " is not finite";
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
