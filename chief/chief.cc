// Threads and records. The calls of others are in chief_calls.cc.
#include "chief/chief.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "runtime/rpc/refused_connection.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

// How long after the end a ps may take to be told so.
constexpr absl::Duration kFinishWait = absl::Seconds(10);

}  // namespace

class Chief::PsLine {
 public:
  PsLine(Chief* chief, uint32_t ps) : chief_(chief), ps_(ps), thread_([this] { Run(); }) {}
  ~PsLine() {
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      if (open_ != nullptr) open_->Close();  // A ps may take minutes to load.
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
  // Of the thread, which alone changes client_. Connecting may take a while, and a chief that has
  // something to send holds its own mutex: it never waits for that.
  ParameterClient* ClientAt(const std::string& address) {
    if (client_ != nullptr && address_ == address) return client_;
    std::unique_ptr<ParameterClient> client = chief_->options_.connect(ps_, address);
    address_ = address;
    client_ = client.get();
    bool closing = false;
    {
      MutexLock lock(&mutex_);
      open_.swap(client);
      closing = closing_;
    }
    if (closing) client_->Close();
    return client_;
  }

  void Run() {
    while (true) {
      PsCommand command;
      {
        MutexLock lock(&mutex_);
        while (queue_.empty() && !closing_) changed_.Wait(&mutex_);
        if (closing_) return;
        command = std::move(queue_.front());
        queue_.pop_front();
      }
      chief_->Deliver(command, ClientAt(command.address));
    }
  }

  Chief* const chief_;
  const uint32_t ps_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<PsCommand> queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ParameterClient> open_ ABSL_GUARDED_BY(mutex_);
  ParameterClient* client_ = nullptr;  // open_, of the thread,
  std::string address_;                // and where it is connected to.
  std::thread thread_;
};

Chief::Chief(Options options)
    : options_(std::move(options)), session_(options_.session), publisher_("publisher") {
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
  publisher_.Stop();
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
      if (records.empty() && publishing_ == 0 && Over()) {
        over_since = std::min(over_since, now);
        if (session_.all_finished() || now - over_since > kFinishWait) {
          drained_ = true;
          changed_.NotifyAll();
        }
      }
    }
    RecordAll(records);
  }
}

void Chief::DispatchCommands() {
  for (PsCommand& command : session_.TakeCommands(options_.clock->Now())) {
    const uint32_t ps = command.ps;
    lines_[ps]->Send(std::move(command));
  }
}

void Chief::RecordAll(const std::vector<SessionRecord>& records) {
  for (const SessionRecord& record : records) {
    if (const auto* line = std::get_if<StepLine>(&record)) {
      options_.recorder->Record(*line);
    } else if (const auto* rolled_back = std::get_if<RolledBack>(&record)) {
      const absl::Status status = options_.recorder->Record(*rolled_back);
      {
        MutexLock lock(&mutex_);
        FenceIfAborted(status);
      }
      if (rolled_back->lines_only) continue;
      OnPublisher(
          [this, step = rolled_back->version] { return options_.recorder->DiscardAbove(step); });
    } else if (const auto* given_up = std::get_if<CutGivenUp>(&record)) {
      OnPublisher(
          [this, given_up = *given_up] { return options_.recorder->OnCheckpointFailed(given_up); });
    } else if (const auto* starts = std::get_if<TrainingStarts>(&record)) {
      options_.recorder->Record(*starts);
    } else if (const auto* note = std::get_if<SessionNote>(&record)) {
      if (note->is_warning) {
        LOG(WARNING) << note->text;
      } else {
        LOG(INFO) << note->text;
      }
    } else {
      OnPublisher([this, write = std::get<ManifestToWrite>(record)] { return PublishNow(write); });
    }
  }
}

void Chief::OnPublisher(std::function<absl::Status()> work) {
  {
    MutexLock lock(&mutex_);
    ++publishing_;
  }
  publisher_.Post([this, work = std::move(work)] {
    const absl::Status status = work();
    MutexLock lock(&mutex_);
    --publishing_;
    FenceIfAborted(status);
    poked_ = true;
    poke_.NotifyAll();
    changed_.NotifyAll();
  });
}

absl::Status Chief::PublishNow(const ManifestToWrite& write) {
  absl::Status status = options_.recorder->Publish(write);
  bool stands = false;
  {
    MutexLock lock(&mutex_);
    FenceIfAborted(status);
    session_.OnManifestWritten(options_.clock->Now(), write, status);
    stands = session_.RestsOn(write.directory);
    poked_ = true;
    poke_.NotifyAll();
    changed_.NotifyAll();
  }
  if (stands) options_.recorder->OnCheckpointStands();
  return status;
}

void Chief::FenceIfAborted(const absl::Status& status) {
  if (absl::IsAborted(status)) session_.Fence(std::string(status.message()));
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
    LOG(WARNING) << "ps/" << command.ps << " did not answer: "
                 << DescribeFailure(status, command.address, options_.secure);
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

bool Chief::all_told() const {
  MutexLock lock(&mutex_);
  return AllTold();
}

bool Chief::CloseRegistration(bool if_all_told) {
  MutexLock lock(&mutex_);
  if (if_all_told && !AllTold()) return false;
  registration_closed_ = true;
  changed_.NotifyAll();
  return true;
}

bool Chief::AllTold() const {
  const v1::DeploymentOptions& deployment = options_.session.run.deployment();
  return told_.size() >= (deployment.has_num_replicas() ? deployment.num_replicas() : 1) &&
         session_.all_finished();
}

Chief::Outcome Chief::outcome() const {
  MutexLock lock(&mutex_);
  Outcome outcome;
  outcome.steps = session_.newest_step();
  outcome.checkpoint = session_.durable_directory();
  outcome.checkpoint_step = session_.durable_version();
  outcome.checkpoint_failure = session_.open_failure();
  outcome.skipped_batches = session_.skipped().size();
  if (session_.plan() != nullptr) {
    outcome.test = session_.Evaluation(outcome.steps);
    outcome.epochs = session_.epochs();
    outcome.classifies = session_.classifies();
  }
  return outcome;
}

}  // namespace shoal
