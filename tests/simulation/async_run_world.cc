#include "tests/simulation/async_run_world.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/checkpoint.pb.h"

namespace shoal {
namespace {

constexpr uint64_t kStepsWithFaults = 1500;
constexpr uint64_t kMostSteps = 60000;

}  // namespace

AsyncRunWorld::AsyncRunWorld(uint64_t seed, const Broken& broken) : random_(seed), broken_(broken) {
  ps_.resize(1 + Below(3));
  workers_.resize(1 + Below(3));
  const auto epochs = static_cast<uint32_t>(1 + Below(4));
  batches_ = 1 + Below(8);
  run_.mutable_sync()->set_sync_replicas(false);
  run_.mutable_deployment()->set_num_replicas(static_cast<uint32_t>(workers_.size()));
  run_.mutable_checkpoint()->set_save_every(OneIn(2) ? 0 : 1 + Below(9));
  run_.set_batch_size(10);
  run_.set_num_epochs(epochs);
  if (OneIn(3)) run_.set_max_steps(1 + Below(epochs * batches_));
  run_.mutable_cluster()->set_slice_bytes(64);
  if (OneIn(2)) evaluation_blocks_ = 1 + Below(3);
  for (uint64_t i = OneIn(3) ? 1 + Below(3) : 0; i > 0; --i) {
    non_finite_.insert({static_cast<uint32_t>(Below(epochs)), Below(batches_)});
  }
  faults_ = OneIn(4) ? 0 : 1 + Below(60);
  published_ = 1 + Below(60);
  reported_ = 1 + Below(30);
  loaded_ = 1 + Below(40);
}

void AsyncRunWorld::Fail(const std::string& what) {
  if (failure_.empty()) {
    failure_ = absl::StrCat(what, " (at ", absl::ToDoubleSeconds(now_ - absl::UnixEpoch()), " s)");
  }
}

std::string AsyncRunWorld::Run() {
  StartChief();
  for (uint64_t step = 0; failure_.empty(); ++step) {
    has_faults_ = step < kStepsWithFaults;
    Step();
    const v1::RunState& state = session_->state();
    if (state.phase() == v1::RunState::PHASE_FAILED) Fail("failed: " + state.message());
    if (step == kMostSteps) Fail(absl::StrCat("stuck at step ", session_->newest_step()));
    if (state.phase() != v1::RunState::PHASE_DONE || !publishing_.empty()) continue;
    if (!session_->interrupted()) break;
    StartChief();
  }
  if (failure_.empty()) Judge();
  return failure_;
}

// --- Lives.

TrainingSession::Options AsyncRunWorld::Options() const {
  TrainingSession::Options options;
  options.run = run_;
  options.run_id = "run";
  options.term = term_;
  options.num_ps_tasks = static_cast<uint32_t>(ps_.size());
  options.lease = absl::Seconds(3);
  options.peer_wait = options.ps_return_wait = options.stall = absl::InfiniteDuration();
  options.resend = absl::Seconds(1);
  options.resend_load = absl::Seconds(5);
  const std::string newest = manifests_.NewestDirectory();
  if (newest.empty()) return options;
  options.manifest = *manifests_.FindManifest(newest);
  options.manifest_directory = newest;
  return options;
}

// Everything begins anew, from the newest checkpoint if there is one.
void AsyncRunWorld::StartChief() {
  ++counts_.chiefs;
  ++term_;
  publishing_.clear();
  answers_.clear();
  for (Ps& ps : ps_) ps = Ps();
  for (Worker& worker : workers_) worker = Worker();
  const std::string newest = manifests_.NewestDirectory();
  if (!newest.empty()) CheckLines(newest);
  session_ = std::make_unique<TrainingSession>(Options());
}

void AsyncRunWorld::Step() {
  now_ += absl::Milliseconds(Below(60));
  if (OneIn(3)) {
    for (uint32_t i = 0; i < ps_.size(); ++i) PsBeats(i);
    for (uint32_t i = 0; i < workers_.size(); ++i) WorkerBeats(i);
  }
  const uint64_t turn = Below(8);
  if (turn == 0) {
    Tick();
  } else if (turn <= 2) {
    PsActs(static_cast<uint32_t>(Below(ps_.size())));
  } else if (turn <= 4) {
    WorkerActs(static_cast<uint32_t>(Below(workers_.size())));
  } else if (turn == 5) {
    Publish();
  } else if (turn == 6 && !answers_.empty()) {
    const std::function<void()> answer = std::move(answers_.front());
    answers_.pop_front();
    answer();
  } else if (faults_ > 0 && Happens(faults_)) {
    Fault();
  }
  TakeRecords();
}

void AsyncRunWorld::Disconnect(v1::Job job, uint32_t index, uint64_t incarnation) {
  // Else only its lease tells.
  if (incarnation != 0 && OneIn(2)) session_->Disconnect(now_, IdentityOf(job, index, incarnation));
}

void AsyncRunWorld::Fault() {
  const uint64_t kind = Below(9);
  if (kind < 4) {
    const auto index = static_cast<uint32_t>(Below(ps_.size()));
    if (!std::exchange(ps_[index].is_alive, false)) return;
    ++counts_.ps_deaths;
    Disconnect(v1::JOB_PS, index, ps_[index].incarnation);
  } else if (kind < 6) {
    const auto index = static_cast<uint32_t>(Below(workers_.size()));
    if (!std::exchange(workers_[index].is_alive, false)) return;
    ++counts_.worker_deaths;
    Disconnect(v1::JOB_WORKER, index, workers_[index].incarnation);
  } else if (kind == 6) {
    if (OneIn(3)) StartChief();
  } else {
    v1::RequestStopRequest request;
    request.set_stop(kind == 7 && OneIn(3));
    (void)session_->RequestStop(now_, request);
  }
}

// --- The chief's driver and its disk.

void AsyncRunWorld::Tick() {
  session_->Tick(now_);
  for (PsCommand& command : session_->TakeCommands(now_)) {
    if (Happens(12)) {
      session_->OnUndelivered(now_, command);
    } else {
      ps_[command.ps].commands.push_back(std::move(command));
    }
  }
}

void AsyncRunWorld::TakeLine(uint64_t step) {
  if (step != num_lines_ + 1) Fail(absl::StrCat("line ", step, " follows line ", num_lines_));
  num_lines_ = step;
}

void AsyncRunWorld::TakeRecords() {
  for (const SessionRecord& record : session_->TakeRecords()) {
    if (const auto* line = std::get_if<StepLine>(&record)) {
      TakeLine(line->report.step());
    } else if (const auto* back = std::get_if<RolledBack>(&record)) {
      if (back->version > num_lines_ && !may_lack_lines_) {
        Fail(absl::StrCat("lines are cut back to ", back->version, ", but end at ", num_lines_));
      }
      num_lines_ = back->version;
    } else if (const auto* write = std::get_if<ManifestToWrite>(&record)) {
      publishing_.push_back(*write);
    } else if (const auto* note = std::get_if<SessionNote>(&record)) {
      may_lack_lines_ = may_lack_lines_ || absl::StrContains(note->text, "lacks lines");
    }
  }
}

void AsyncRunWorld::Publish() {
  if (publishing_.empty() || (has_faults_ && !OneIn(published_))) return;
  const ManifestToWrite write = std::move(publishing_.front());
  publishing_.pop_front();
  if (Happens(10) && !write.manifest.finished()) {
    ++counts_.failed_manifests;
    return session_->OnManifestWritten(now_, write, absl::UnavailableError("no disk"));
  }
  for (const v1::ShardFile& file : write.manifest.shards()) {
    if (shards_.count({write.directory, file.name()}) == 0) Fail("a manifest names no shard");
  }
  ++counts_.checkpoints;
  manifests_.WriteManifest(write.directory, write.manifest);
  CheckLines(write.directory);
  session_->OnManifestWritten(now_, write, absl::OkStatus());
}

void AsyncRunWorld::CheckLines(const std::string& directory) {
  const uint64_t steps = steps_of_[directory];
  if (num_lines_ >= steps || may_lack_lines_) return;
  Fail(absl::StrCat(directory, " has ", steps, " steps, metrics.jsonl only ", num_lines_));
}

// --- The verdict.

void AsyncRunWorld::Judge() {
  const std::string& directory = session_->durable_directory();
  if (manifests_.FindManifest(directory) == nullptr) {
    return Fail("the run ends without a checkpoint");
  }
  const v1::Manifest& manifest = *manifests_.FindManifest(directory);
  if (!manifest.finished()) Fail("the last checkpoint is not of the end");
  if (manifests_.NewestDirectory() != directory) Fail("a checkpoint is newer than the last");
  v1::DataLedgerState ledger;
  ledger.ParseFromString(manifest.ledger());
  const BatchKey next{ledger.next().epoch(), ledger.next().index()};
  if (run_.max_steps() == 0 && next.epoch < run_.num_epochs()) Fail("the run ends too early");
  std::set<BatchKey> skipped;
  for (const v1::SkippedBatch& skip : ledger.skipped()) {
    const BatchKey batch{skip.batch().epoch(), skip.batch().index()};
    if (non_finite_.count(batch) == 0) Fail("a good batch is skipped");
    skipped.insert(batch);
  }
  for (const v1::ShardFile& file : manifest.shards()) {
    JudgeShard(file.name(), shards_.at({directory, file.name()}), next, skipped);
  }
  if (num_lines_ != steps_of_[directory] && !may_lack_lines_) {
    Fail(absl::StrCat(num_lines_, " lines for ", steps_of_[directory], " steps"));
  }
}

void AsyncRunWorld::JudgeShard(const std::string& name, const Shard& shard, const BatchKey& next,
                               const std::set<BatchKey>& skipped) {
  for (uint32_t epoch = 0; epoch < run_.num_epochs(); ++epoch) {
    for (uint64_t index = 0; index < batches_; ++index) {
      const BatchKey batch{epoch, index};
      const auto found = shard.times.find(batch);
      const int times = found == shard.times.end() ? 0 : found->second;
      const int wanted = batch < next ? 1 : 0;
      if (times == wanted || (times == 0 && skipped.count(batch) > 0)) continue;
      Fail(absl::StrCat("ps/", name, " has batch ", index, " of epoch ", epoch, " ", times,
                        " times"));
    }
  }
}

}  // namespace shoal
