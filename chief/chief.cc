#include "chief/chief.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/optional.h"

#include "base/log.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

// How long a heartbeat or a question for a norm may wait here.
constexpr absl::Duration kLongestPark = absl::Seconds(1);
// How long after the end a ps may take to be told so.
constexpr absl::Duration kFinishWait = absl::Seconds(10);
// A task that holds a place which another process wants must be heard within this time. Longer than
// kLongestPark.
constexpr absl::Duration kProofOfLife = absl::Seconds(2);

}  // namespace

class Chief::PsLine {
 public:
  PsLine(Chief* chief, uint32_t ps) : chief_(chief), ps_(ps), thread_([this] { Run(); }) {}
  ~PsLine() {
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Send(PsCommand command) {
    MutexLock lock(&mutex_);
    queue_.push_back(std::move(command));
    changed_.NotifyAll();
  }

 private:
  void Run() {
    std::unique_ptr<ParameterClient> client;
    std::string address;
    while (true) {
      PsCommand command;
      {
        MutexLock lock(&mutex_);
        while (queue_.empty() && !closing_) changed_.Wait(&mutex_);
        if (closing_) return;
        command = std::move(queue_.front());
        queue_.pop_front();
      }
      if (client == nullptr || command.address != address) {
        address = command.address;
        client = chief_->options_.connect(ps_, address);
      }
      chief_->Deliver(command, client.get());
    }
  }

  Chief* const chief_;
  const uint32_t ps_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<PsCommand> queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

Chief::Chief(Options options) : options_(std::move(options)), session_(options_.session) {
  for (uint32_t ps = 0; ps < options_.session.num_ps_tasks; ++ps)
    lines_.push_back(std::make_unique<PsLine>(this, ps));
  driver_ = std::thread([this] { Drive(); });
}

Chief::~Chief() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    poke_.NotifyAll();
    changed_.NotifyAll();
  }
  driver_.join();
  lines_.clear();
}

bool Chief::Over() const {
  const v1::RunState::Phase phase = session_.state().phase();
  return phase == v1::RunState::PHASE_DONE || phase == v1::RunState::PHASE_FAILED;
}

void Chief::Drive() {
  absl::Time over_since = absl::InfiniteFuture();
  while (true) {
    std::vector<SessionRecord> records;
    {
      MutexLock lock(&mutex_);
      if (!poked_ && !closing_) poke_.WaitFor(&mutex_, options_.tick);
      if (closing_) return;
      poked_ = false;
      const uint64_t number = session_.state().number();
      const absl::Time now = options_.clock->Now();
      session_.Tick(now);
      DispatchCommands();
      records = session_.TakeRecords();
      if (session_.state().number() != number) changed_.NotifyAll();
      if (records.empty() && Over()) {
        over_since = std::min(over_since, now);
        if (session_.all_finished() || now - over_since > kFinishWait) {
          drained_ = true;
          changed_.NotifyAll();
        }
      }
    }
    RecordAll(std::move(records));
  }
}

void Chief::DispatchCommands() {
  for (PsCommand& command : session_.TakeCommands(options_.clock->Now())) {
    const uint32_t ps = command.ps;
    lines_[ps]->Send(std::move(command));
  }
}

void Chief::RecordAll(std::vector<SessionRecord> records) {
  for (const SessionRecord& record : records) {
    if (const auto* line = std::get_if<StepLine>(&record)) {
      options_.recorder->Record(*line);
    } else if (const auto* rolled_back = std::get_if<RolledBack>(&record)) {
      options_.recorder->Record(*rolled_back);
    } else if (std::holds_alternative<TrainingStarts>(record)) {
      options_.recorder->OnTrainingStarts();
    } else if (const auto* note = std::get_if<SessionNote>(&record)) {
      LOG(INFO) << note->text;
    } else {
      const auto& write = std::get<ManifestToWrite>(record);
      const absl::Status status = options_.recorder->Record(write);
      bool stands = false;
      {
        MutexLock lock(&mutex_);
        session_.OnManifestWritten(options_.clock->Now(), write.manifest.lineage(),
                                   write.manifest.step(), status);
        stands = session_.RestsOn(write.directory);
        poked_ = true;
        changed_.NotifyAll();
      }
      if (stands) options_.recorder->OnCheckpointStands();
    }
  }
}

void Chief::Deliver(const PsCommand& command, ParameterClient* client) {
  v1::LoadSlicesResponse load;
  v1::WithholdBatchResponse withhold;
  v1::DecideBatchResponse decide;
  v1::RequestCutResponse cut;
  v1::FinishResponse finish;
  v1::GetAppliedResponse applied;
  struct Call {
    ParameterClient* client;
    v1::LoadSlicesResponse* load;
    v1::WithholdBatchResponse* withhold;
    v1::DecideBatchResponse* decide;
    v1::RequestCutResponse* cut;
    v1::FinishResponse* finish;
    v1::GetAppliedResponse* applied;
    absl::Status operator()(const v1::LoadSlicesRequest& r) { return client->LoadSlices(r, load); }
    absl::Status operator()(const v1::WithholdBatchRequest& r) {
      return client->WithholdBatch(r, withhold);
    }
    absl::Status operator()(const v1::DecideBatchRequest& r) {
      return client->DecideBatch(r, decide);
    }
    absl::Status operator()(const v1::RequestCutRequest& r) { return client->RequestCut(r, cut); }
    absl::Status operator()(const v1::FinishRequest& r) { return client->Finish(r, finish); }
    absl::Status operator()(const v1::GetAppliedRequest& r) {
      return client->GetApplied(r, applied);
    }
  };
  const absl::Status status =
      std::visit(Call{client, &load, &withhold, &decide, &cut, &finish, &applied}, command.request);

  MutexLock lock(&mutex_);
  const absl::Time now = options_.clock->Now();
  const bool is_load = std::holds_alternative<v1::LoadSlicesRequest>(command.request);
  const bool answered =
      status.ok() || (is_load && !IsOutcomeUnknown(status) && !absl::IsAborted(status));
  if (!answered) {
    LOG(WARNING) << "ps/" << command.ps << " did not answer: " << status;
    session_.OnUndelivered(now, command);
  } else if (is_load) {
    session_.OnLoadAnswer(
        now, command,
        status.ok() ? absl::StatusOr<v1::LoadSlicesResponse>(std::move(load)) : status);
  } else if (std::holds_alternative<v1::WithholdBatchRequest>(command.request)) {
    session_.OnWithholdAnswer(now, command, withhold);
  } else if (std::holds_alternative<v1::DecideBatchRequest>(command.request)) {
    session_.OnDecideAnswer(command);
  } else if (std::holds_alternative<v1::RequestCutRequest>(command.request)) {
    session_.OnCutAnswer(command, cut);
  } else if (std::holds_alternative<v1::GetAppliedRequest>(command.request)) {
    session_.OnAppliedAnswer(now, command, applied);
  } else {
    session_.OnFinishAnswer(command);
  }
  poked_ = true;
  poke_.NotifyAll();
  changed_.NotifyAll();
}

absl::Status Chief::Wait() {
  MutexLock lock(&mutex_);
  while (!drained_ && !closing_) changed_.Wait(&mutex_);
  if (session_.state().phase() == v1::RunState::PHASE_FAILED) return session_.failure();
  if (session_.interrupted()) return absl::CancelledError("stopped on request");
  return absl::OkStatus();
}

Chief::Outcome Chief::outcome() const {
  MutexLock lock(&mutex_);
  Outcome outcome;
  outcome.steps = session_.newest_step();
  outcome.checkpoint = session_.durable_directory();
  outcome.checkpoint_step = session_.durable_version();
  outcome.skipped_batches = session_.skipped().size();
  if (session_.plan() != nullptr) {
    outcome.test = session_.Evaluation(outcome.steps);
    outcome.epochs = session_.epochs();
    outcome.classifies = session_.classifies();
  }
  return outcome;
}

absl::StatusOr<v1::RegisterTaskResponse> Chief::RegisterWhenFree(
    const v1::RegisterTaskRequest& request) {
  // Whoever holds the place may have died a moment ago: only a heartbeat proves that it lives.
  const TaskId task = TaskOf(request.identity().member());
  const absl::optional<absl::Time> heard = session_.LastHeard(task);
  const absl::Time until = options_.clock->Now() + kProofOfLife;
  while (true) {
    const absl::Time now = options_.clock->Now();
    if (now >= until) session_.PresumeDead(now, task);
    absl::StatusOr<v1::RegisterTaskResponse> answer = session_.Register(now, request);
    if (!absl::IsAlreadyExists(answer.status()) || session_.LastHeard(task) != heard ||
        now >= until || closing_) {
      return answer;
    }
    options_.clock->WaitUntil(std::min(until, now + options_.tick), &mutex_, &changed_);
  }
}

absl::Status Chief::RegisterTask(const v1::RegisterTaskRequest& request,
                                 v1::RegisterTaskResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::RegisterTaskResponse> answer = RegisterWhenFree(request);
  poked_ = true;
  poke_.NotifyAll();
  changed_.NotifyAll();
  if (!answer.ok()) {
    LOG(WARNING) << "refused " << TaskOf(request.identity().member()).ToString() << ": "
                 << answer.status();
    return answer.status();
  }
  *response = *std::move(answer);
  LOG(INFO) << TaskOf(request.identity().member()).ToString() << " registered, pid "
            << request.process_id() << " on " << request.host()
            << (request.address().empty() ? "" : ", serves at ") << request.address();
  return absl::OkStatus();
}

absl::Status Chief::Heartbeat(const v1::HeartbeatRequest& request,
                              v1::HeartbeatResponse* response) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.Heartbeat(options_.clock->Now(), request);
  if (!status.ok()) return status;
  const absl::Time until = options_.clock->Now() +
                           std::min(kLongestPark, absl::Milliseconds(request.wait_milliseconds()));
  while (session_.state().number() == request.known_state() && !closing_ && !Over()) {
    if (!options_.clock->WaitUntil(until, &mutex_, &changed_)) break;
  }
  if (session_.state().number() != request.known_state()) {
    *response->mutable_state() = session_.state();
    if (request.known_state() != 0) response->mutable_state()->clear_run();
  }
  return absl::OkStatus();
}

absl::Status Chief::ReportSteps(const v1::ReportStepsRequest& request,
                                v1::ReportStepsResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportSteps(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  return status;
}

absl::Status Chief::ReportShard(const v1::ReportShardRequest& request,
                                v1::ReportShardResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportShard(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  return status;
}

absl::Status Chief::ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                     v1::ReportEvaluationResponse* /*response*/) {
  MutexLock lock(&mutex_);
  return session_.ReportEvaluation(options_.clock->Now(), request);
}

absl::Status Chief::ReportBadBatch(const v1::ReportBadBatchRequest& request,
                                   v1::ReportBadBatchResponse* /*response*/) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportBadBatch(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  return status;
}

absl::Status Chief::LeaseBatches(const v1::LeaseBatchesRequest& request,
                                 v1::LeaseBatchesResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<v1::LeaseBatchesResponse> answer =
      session_.LeaseBatches(options_.clock->Now(), request);
  if (!answer.ok()) return answer.status();
  *response = *std::move(answer);
  // Finished batches may make a cut due; asking for more changes nothing.
  if (request.finished_size() > 0) {
    poked_ = true;
    poke_.NotifyAll();
  }
  return absl::OkStatus();
}

absl::Status Chief::ReportNorms(const v1::ReportNormsRequest& request,
                                v1::ReportNormsResponse* response) {
  MutexLock lock(&mutex_);
  absl::Status status = session_.ReportNorms(options_.clock->Now(), request);
  if (!status.ok()) return status;
  changed_.NotifyAll();
  const absl::Time until = options_.clock->Now() + kLongestPark;
  while (true) {
    const std::optional<double> scale =
        session_.NormScale(request.identity().lineage(), request.step());
    if (scale.has_value()) {
      response->set_ready(true);
      response->set_scale(*scale);
      return absl::OkStatus();
    }
    if (closing_ || !options_.clock->WaitUntil(until, &mutex_, &changed_)) return absl::OkStatus();
  }
}

absl::Status Chief::RequestStop(const v1::RequestStopRequest& request,
                                v1::RequestStopResponse* response) {
  MutexLock lock(&mutex_);
  absl::StatusOr<uint64_t> version = session_.RequestStop(options_.clock->Now(), request);
  poked_ = true;
  poke_.NotifyAll();
  changed_.NotifyAll();
  if (!version.ok()) return version.status();
  response->set_version(*version);
  return absl::OkStatus();
}

void Chief::OnDisconnect(const v1::Identity& member) {
  MutexLock lock(&mutex_);
  session_.Disconnect(options_.clock->Now(), member);
}

absl::Status Chief::GetRunStatus(const v1::GetRunStatusRequest& /*request*/,
                                 v1::GetRunStatusResponse* response) {
  MutexLock lock(&mutex_);
  *response = session_.Status(options_.clock->Now());
  return absl::OkStatus();
}

}  // namespace shoal
