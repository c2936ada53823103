// Threads and records. The calls of others are in chief_calls.cc.
#include "chief/chief.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "proto/v1/parameter_service.grpc.pb.h"

namespace shoal {
namespace {

// The most given-up checkpoints that may wait for their removal.
constexpr size_t kMostGivenUp = 64;

// The most records that may wait while void checkpoints are removed, because the file system may
// hang.
constexpr size_t kMostRecordsThatWait = 1 << 16;

// Sends a command.
struct Call {
  using Service = v1::ParameterService::Service;
  ParameterClient* client;
  template <typename Request, typename Response>
  absl::StatusOr<PsResponse> Send(grpc::Status (Service::*method)(grpc::ServerContext*,
                                                                  const Request*, Response*),
                                  const Request& request) const {
    Response response;
    const absl::Status status = client->Call(method, request, &response);
    if (!status.ok()) return status;
    return PsResponse(std::move(response));
  }
  absl::StatusOr<PsResponse> operator()(const v1::LoadSlicesRequest& request) const {
    return Send(&Service::LoadSlices, request);
  }
  absl::StatusOr<PsResponse> operator()(const v1::WithholdBatchRequest& request) const {
    return Send(&Service::WithholdBatch, request);
  }
  absl::StatusOr<PsResponse> operator()(const v1::DecideBatchRequest& request) const {
    return Send(&Service::DecideBatch, request);
  }
  absl::StatusOr<PsResponse> operator()(const v1::RequestCutRequest& request) const {
    return Send(&Service::RequestCut, request);
  }
  absl::StatusOr<PsResponse> operator()(const v1::FinishRequest& request) const {
    return Send(&Service::Finish, request);
  }
  absl::StatusOr<PsResponse> operator()(const v1::GetAppliedRequest& request) const {
    return Send(&Service::GetApplied, request);
  }
};

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
    if (command.incarnation > newest_) {
      // Calls to the process before it would last until their deadlines, one after the other.
      newest_ = command.incarnation;
      queue_.clear();
      if (open_ != nullptr) open_->Close();
      is_closed_ = true;
    }
    queue_.push_back(std::move(command));
    changed_.NotifyAll();
  }

 private:
  // Only the thread of this line calls this; it alone changes client_. Connecting may take a while,
  // and a chief that has something to send holds its own mutex: it never waits for that.
  ParameterClient* ClientAt(const std::string& address) {
    {
      MutexLock lock(&mutex_);
      const bool is_closed = std::exchange(is_closed_, false);
      if (client_ != nullptr && address_ == address && !is_closed) return client_;
    }
    std::unique_ptr<ParameterClient> client = chief_->options_.connect(ps_, address);
    address_ = address;
    client_ = client.get();
    bool closing = false;
    {
      MutexLock lock(&mutex_);
      open_.swap(client);
      closing = closing_ || is_closed_;
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
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;  // The ps's newest incarnation.
  std::unique_ptr<ParameterClient> open_ ABSL_GUARDED_BY(mutex_);
  // Close() has ended the calls of open_, so the thread must connect again.
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  // A copy of open_ and the address that it is connected to. Only the thread uses them, without the
  // mutex.
  ParameterClient* client_ = nullptr;
  std::string address_;
  std::thread thread_;
};

Chief::Chief(Options options)
    : options_(std::move(options)),
      logic_(ChiefLogic::Options{options_.session, options_.secure, options_.tick}),
      publisher_("publisher") {
  for (uint32_t ps = 0; ps < options_.session.num_ps_tasks; ++ps)
    lines_.push_back(std::make_unique<PsLine>(this, ps));
  driver_ = std::thread([this] { Drive(); });
}

Chief::~Chief() {
  {
    MutexLock lock(&mutex_);
    logic_.Close();
    PokeAll();
  }
  driver_.join();
  publisher_.Stop();
  lines_.clear();
}

void Chief::Poke() {
  poked_ = true;
  poke_.NotifyAll();
}

void Chief::PokeAll() {
  Poke();
  changed_.NotifyAll();
}

void Chief::Drive() {
  while (true) {
    std::vector<SessionRecord> records;
    {
      MutexLock lock(&mutex_);
      if (!poked_ && !logic_.closing()) poke_.WaitFor(&mutex_, options_.tick);
      if (logic_.closing()) return;
      poked_ = false;
      const uint64_t number = logic_.session().state().number();
      const absl::Time now = options_.clock->Now();
      logic_.Tick(now);
      DispatchCommands();
      records = logic_.TakeRecords();
      logic_.LookForEnd(now, !records.empty() || !records_.empty());
      if (logic_.session().state().number() != number || logic_.drained()) changed_.NotifyAll();
    }
    RecordAll(std::move(records));
  }
}

void Chief::DispatchCommands() {
  for (PsCommand& command : logic_.TakeCommands(options_.clock->Now())) {
    const uint32_t ps = command.ps;
    lines_[ps]->Send(std::move(command));
  }
}

class Chief::RecordWriter {
 public:
  explicit RecordWriter(Chief* chief) : chief_(*chief), recorder_(*chief->options_.recorder) {}

  void operator()(const StepLine& line) { recorder_.Record(line); }
  void operator()(const TrainingStarts& starts) { recorder_.Record(starts); }
  void operator()(const CheckpointsVoid& discard) { chief_.DiscardOnPublisher(discard); }
  void operator()(const RolledBack& rolled_back) {
    const absl::Status status = recorder_.Record(rolled_back);
    MutexLock lock(&chief_.mutex_);
    chief_.logic_.OnRecorded(status);
  }
  void operator()(const CutGivenUp& given_up) { chief_.GiveUpOnPublisher(given_up); }
  void operator()(const ManifestToWrite& write) {
    recorder_.WriteWaitingLines();
    chief_.OnPublisher([chief = &chief_, write] { return chief->PublishNow(write); });
  }
  void operator()(const ModelExport& wanted) {
    chief_.OnPublisher([chief = &chief_, wanted] { return chief->ExportNow(wanted); });
  }
  void operator()(const TermInDoubt& /*doubt*/) {
    chief_.OnPublisher([recorder = &recorder_] { return recorder->CheckTerm(); });
  }
  void operator()(const InitialValuesDiffer& differ) {
    chief_.OnPublisher([recorder = &recorder_, differ] {
      recorder->Record(differ);
      return absl::OkStatus();
    });
  }
  void operator()(const SessionNote& note) {
    if (note.is_warning) {
      LOG(WARNING) << note.text;
    } else {
      LOG(INFO) << note.text;
    }
    recorder_.OnNote(note);
  }

 private:
  Chief& chief_;
  SessionRecorder& recorder_;
};

void Chief::RecordAll(std::vector<SessionRecord> records) {
  RecordWriter writer(this);
  for (SessionRecord& record : records) {
    if (const auto* note = std::get_if<SessionNote>(&record)) {
      writer(*note);  // The log does not wait.
    } else {
      records_.push_back(std::move(record));
    }
  }
  while (!records_.empty()) {
    {
      MutexLock lock(&mutex_);
      if (discarding_ && records_.size() < kMostRecordsThatWait) return;
    }
    std::visit(writer, records_.front());
    records_.pop_front();
  }
}

void Chief::GiveUpOnPublisher(const CutGivenUp& given_up) {
  {
    MutexLock lock(&mutex_);
    // Newer checkpoints remove what is left of it.
    if (num_given_up_ >= kMostGivenUp) return;
    ++num_given_up_;
  }
  OnPublisher([this, given_up] {
    const absl::Status status = options_.recorder->OnCheckpointFailed(given_up);
    MutexLock lock(&mutex_);
    --num_given_up_;
    return status;
  });
}

void Chief::DiscardOnPublisher(const CheckpointsVoid& discard) {
  {
    MutexLock lock(&mutex_);
    discarding_ = true;
  }
  OnPublisher([this, version = discard.version] {
    const absl::Status status = options_.recorder->DiscardAbove(version);
    MutexLock lock(&mutex_);
    discarding_ = false;
    return status;
  });
}

void Chief::OnPublisher(std::function<absl::Status()> work) {
  {
    MutexLock lock(&mutex_);
    logic_.BeginWork();
  }
  publisher_.Post([this, work = std::move(work)] {
    const absl::Status status = work();
    MutexLock lock(&mutex_);
    logic_.EndWork(status);
    PokeAll();
  });
}

absl::Status Chief::PublishNow(const ManifestToWrite& write) {
  absl::Status status = options_.recorder->Publish(write);
  bool is_newest = false;
  {
    MutexLock lock(&mutex_);
    is_newest = logic_.OnManifestWritten(options_.clock->Now(), write, status);
    PokeAll();
  }
  if (is_newest) options_.recorder->OnCheckpointAccepted();
  return status;
}

absl::Status Chief::ExportNow(const ModelExport& wanted) {
  const absl::Status status = options_.recorder->Export(wanted);
  MutexLock lock(&mutex_);
  logic_.OnExported(options_.clock->Now(), wanted, status);
  return status;
}

void Chief::Deliver(const PsCommand& command, ParameterClient* client) {
  absl::StatusOr<PsResponse> answer = std::visit(Call{client}, command.request);
  MutexLock lock(&mutex_);
  logic_.OnAnswer(options_.clock->Now(), command, std::move(answer));
  PokeAll();
}

absl::Status Chief::Wait() {
  MutexLock lock(&mutex_);
  while (!logic_.drained() && !logic_.closing()) changed_.Wait(&mutex_);
  return logic_.result();
}

bool Chief::all_notified() const {
  MutexLock lock(&mutex_);
  return logic_.all_notified();
}

bool Chief::CloseRegistration(bool if_all_notified) {
  MutexLock lock(&mutex_);
  if (!logic_.CloseRegistration(if_all_notified)) return false;
  changed_.NotifyAll();
  return true;
}

Chief::Outcome Chief::outcome() const {
  MutexLock lock(&mutex_);
  const TrainingSession& session = logic_.session();
  Outcome outcome;
  outcome.steps = session.mode().newest_step();
  outcome.checkpoint = session.checkpoints().durable_directory();
  outcome.checkpoint_step = session.checkpoints().durable_version();
  outcome.checkpoint_failure = session.checkpoints().open_failure();
  outcome.skipped_batches = session.mode().skipped().size();
  if (session.plan() != nullptr) {
    outcome.test = session.Evaluation(outcome.steps);
    outcome.epochs = session.mode().num_epochs();
    outcome.classifies = session.model()->classifies();
    for (const v1::MetricSpec& metric : session.model()->metrics()) {
      outcome.metric_names.push_back(metric.name());
    }
  }
  return outcome;
}

}  // namespace shoal
