#include "tests/simulation/cluster_simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "base/hash.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/config/run_config.h"
#include "runtime/config/stop_times.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

constexpr double kPatience = 2500;  // Seconds that a run may take, most of them in waits.
// The time between two looks at the chief.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);

void DrawOptimizer(SeededRandom* random, v1::OptimizerConfig* optimizer) {
  optimizer->set_learning_rate(0.05);
  switch (random->Below(3)) {
    case 0:
      optimizer->mutable_sgd();
      break;
    case 1:
      optimizer->mutable_momentum();
      break;
    default:
      optimizer->mutable_adam();
  }
  if (random->Chance(0.25)) optimizer->set_clip_by_global_norm(random->Uniform(0.5, 3));
}

uint32_t IndexOf(const std::string& task) {
  return static_cast<uint32_t>(std::atoi(task.c_str() + task.find('/') + 1));
}

HistoryEvent EventOf(HistoryEvent::Kind kind, uint64_t term = 0, uint64_t lineage = 0,
                     uint64_t step = 0) {
  HistoryEvent event;
  event.kind = kind;
  event.term = term;
  event.lineage = lineage;
  event.step = step;
  return event;
}

}  // namespace

ClusterSimulation::ClusterSimulation(Options options)
    : options_(std::move(options)),
      fibers_(options_.seed),
      random_(options_.seed ^ 0x9e3779b97f4a7c15),
      model_(options_.seed, options_.synchronous, options_.tables),
      network_(&fibers_, options_.seed ^ 0x51ab) {
  DrawRun();
  SeededRandom faults(options_.seed ^ 0xfa017);
  plan_ = DrawFaults(&faults, run_.num_ps, run_.num_workers, options_.allowed);
  network_.resolve = [this](const std::string& address) -> SimulatedProcess* {
    if (address == "chief") {
      const auto it = current_.find("chief");
      return it == current_.end() ? nullptr : &it->second->process;
    }
    for (const auto& [task, life] : current_) {
      if (life->process.address == address) return &life->process;
    }
    return nullptr;
  };
  environment_ = {&run_,
                  &model_,
                  &fibers_,
                  &network_,
                  &disks_,
                  &random_,
                  [this](SimulatedProcess* process) { Crash(process); },
                  [this](SimulatedProcess* process, Chief* chief) { OnChief(process, chief); }};
}

ClusterSimulation::~ClusterSimulation() = default;

void ClusterSimulation::DrawRun() {
  run_.seed = options_.seed;
  run_.synchronous = options_.synchronous;
  run_.num_ps = static_cast<uint32_t>(random_.Between(1, 3));
  run_.num_workers = static_cast<uint32_t>(random_.Between(1, 4));
  run_.evaluation_blocks = random_.Between(0, 2);
  const auto batch_size = static_cast<uint32_t>(random_.Between(1, 4));
  const auto replicas = static_cast<uint32_t>(random_.Between(1, 4));
  const uint64_t most = (run_.synchronous ? replicas : 1) * batch_size * 14;
  run_.train_examples = random_.Between(1, most);
  const auto epochs = static_cast<uint32_t>(random_.Between(1, 3));
  if (random_.Chance(0.2)) run_.slow_worker = 4;

  run_.ps_threads = 1 + MixBits(options_.seed) % 3;

  v1::RunConfig& run = run_.run;
  run.set_name("simulated");
  run.set_out("/run");
  run.set_batch_size(batch_size);
  run.set_num_epochs(epochs);
  if (random_.Chance(0.3)) run.set_max_steps(random_.Between(2, 30));
  run.set_seed(options_.seed);
  run.set_eval_every(random_.Between(0, 3));
  run.mutable_summary()->set_scalars_every(0);
  run.mutable_checkpoint()->set_save_every(random_.Between(0, 4));
  run.mutable_checkpoint()->set_save_seconds(0);
  run.mutable_sync()->set_sync_replicas(run_.synchronous);
  if (run_.synchronous) run.mutable_sync()->set_replicas_to_aggregate(replicas);
  run.mutable_deployment()->set_num_replicas(run_.num_workers);
  run.mutable_deployment()->set_num_ps_tasks(run_.num_ps);
  run.mutable_cluster()->set_slice_bytes(64);
  run.mutable_cluster()->set_lease_seconds(3);
  run.mutable_cluster()->set_ps_return_seconds(30);
  run.mutable_cluster()->set_wait_seconds(60);
  if (run_.synchronous) {
    DrawOptimizer(&random_, run.mutable_optimizer());
  } else {
    run.mutable_optimizer()->set_learning_rate(1);
    run.mutable_optimizer()->mutable_sgd();
    run.mutable_sync()->set_max_staleness(random_.Chance(0.5) ? -1 : 4);
  }
  if (options_.tables && MixBits(options_.seed ^ 0xde17a) % 2 == 0) {
    run.mutable_checkpoint()->set_save_every(1 + MixBits(options_.seed ^ 0xba5e) % 2);
  }
  ResolveDefaults(TaskCounts(), &run);
  const uint64_t batches = (run_.train_examples + batch_size - 1) / batch_size;
  for (uint32_t epoch = 0; options_.bad_batches && epoch < epochs; ++epoch) {
    for (uint64_t index = 0; index < batches; ++index) {
      const BatchKey batch{epoch, index};
      if (random_.Chance(0.04)) {
        run_.non_finite.insert(batch);
      } else if (random_.Chance(0.02)) {
        run_.deadly.insert(batch);
      } else if (random_.Chance(0.03)) {
        run_.flaky.insert(batch);
      }
    }
  }
}

std::string ClusterSimulation::Describe() const {
  return absl::StrCat(
      run_.synchronous ? "SYNC" : "ASYNC", ", seed ", options_.seed, ": ", run_.num_ps, " ps, ",
      run_.num_workers, " workers, ", run_.train_examples, " examples, ", run_.non_finite.size(),
      " bad, ", run_.deadly.size(), " deadly and ", run_.flaky.size(), " flaky batches\n",
      run_.run.ShortDebugString(), "\n", model_.tables().ToString(), plan_.ToString());
}

void ClusterSimulation::Note(const std::string& text) {
  if (options_.verbose) std::fprintf(stderr, "%8.3f %s\n", fibers_.seconds(), text.c_str());
}

void ClusterSimulation::Add(HistoryEvent event) {
  event.time = fibers_.seconds();
  history_.Add(std::move(event));
}

void ClusterSimulation::AddTrouble() { Add(EventOf(HistoryEvent::kTrouble)); }

// Lives.

ClusterSimulation::Life* ClusterSimulation::Start(const std::string& task) {
  lives_.push_back(std::make_unique<Life>());
  Life* const life = lives_.back().get();
  life->process.task = task;
  life->process.address = absl::StrCat(task, "-", lives_.size(), ":1");
  life->process.host.name = life->process.address;
  current_[task] = life;
  ++counts_.lives;
  fibers_.Start(&life->process.host, [this, life] { RunTask(life); });
  return life;
}

void ClusterSimulation::RunTask(Life* life) {
  const std::string& task = life->process.task;
  absl::Status status;
  if (task == "chief") {
    status = RunSimulatedChief(environment_, &life->process, &life->end);
  } else if (absl::StartsWith(task, "ps")) {
    status = RunSimulatedPs(environment_, &life->process, IndexOf(task), &life->end);
  } else {
    status = RunSimulatedWorker(environment_, &life->process, IndexOf(task), &life->end);
  }
  OnEnded(life, status);
}

void ClusterSimulation::OnEnded(Life* life, const absl::Status& status) {
  life->ended = true;
  if (!life->process.alive) return;  // Its end was noticed when it was killed.
  Kill(&life->process, /*is_noticed=*/true);
  const std::string& task = life->process.task;
  HistoryEvent event = EventOf(HistoryEvent::kEnded);
  event.task = task;
  event.code = ToExitCode(status);
  event.text = status.ToString();
  Note(absl::StrCat(life->process.address, " ends: ", event.text));
  Add(event);
  if (task == "chief" && absl::IsCancelled(status) &&
      fibers_.now() - stop_requested_at_ > ComputeStopTimes(run_.run).checkpoint / 2) {
    stop_was_slow_ = true;  // Waits::CheckStop may have ended the steps.
  }
  if (task == "chief" && status.ok()) {
    over_ = true;
    Add(EventOf(HistoryEvent::kOver));
  }
  if (!over_) StartLater(task, 0.2, 4);
}

void ClusterSimulation::StartLater(const std::string& task, double low, double high) {
  if (workers_are_gone_ && absl::StartsWith(task, "worker")) return;
  const size_t lives = lives_.size();
  fibers_.After(absl::Seconds(random_.Uniform(low, high)), [this, task, lives] {
    const Life* life = current_[task];
    const bool is_newer = life != nullptr && life->process.alive;
    if (!over_ && !ending_ && !is_newer && lives <= lives_.size()) Start(task);
  });
}

void ClusterSimulation::KillTask(const std::string& task) {
  Life* const life = current_[task];
  if (life == nullptr || !life->process.alive) return;
  Note(absl::StrCat("kills ", life->process.address));
  fibers_.Resume(&life->process.host);
  Kill(&life->process, /*is_noticed=*/random_.Chance(0.6));
  if (life->process.connection != nullptr && random_.Chance(0.6)) {
    // Its connection breaks; else nobody notices before its lease ends.
    fibers_.After(network_.Delay(), [this, life] {
      if (chief_ == nullptr || !current_["chief"]->process.alive) return;
      fibers_.Start(&current_["chief"]->process.host, [this, life] {
        if (chief_ != nullptr) chief_->OnDisconnect(*life->process.connection);
      });
    });
  }
  if (task == "chief") OnChief(&life->process, nullptr);
  // The rest of the process runs to its end without effect.
  fibers_.Start(&life->process.host, [life] {
    if (life->end) life->end();
  });
  AddTrouble();
  StartLater(task, 0.2, 4);
}

// A batch crashed the process, and the launcher has found the signal and the mark.
void ClusterSimulation::Crash(SimulatedProcess* process) {
  if (!process->alive) return;
  const BatchKey batch = process->batch;
  if (process->connection != nullptr) {
    v1::ReportBadBatchRequest request;
    request.mutable_identity()->set_run_id(process->connection->run_id());
    request.mutable_identity()->set_incarnation(process->connection->incarnation());
    *request.mutable_died() = process->connection->member();
    *request.mutable_batch() = ToProto(batch);
    request.set_reason(v1::ReportBadBatchRequest::REASON_CRASH);
    fibers_.After(absl::Milliseconds(10), [this, request] {
      Life* const chief = current_["chief"];
      if (chief_ == nullptr || !chief->process.alive) return;
      ++chief->process.serving;
      fibers_.Start(&chief->process.host, [chief, request] {
        v1::ReportBadBatchResponse response;
        if (chief->process.chief != nullptr) {
          chief->process.chief->ReportBadBatch(request, &response).IgnoreError();
        }
        --chief->process.serving;
      });
    });
  }
  KillTask(process->task);
}

void ClusterSimulation::OnChief(SimulatedProcess* process, Chief* chief) {
  const Life* const current = current_["chief"];
  if (chief == nullptr) {
    if (&current->process == process) chief_ = nullptr;
    return;
  }
  if (!process->alive) return;
  chief_ = chief;
  v1::GetRunStatusResponse status;
  chief->GetRunStatus(v1::GetRunStatusRequest(), &status).IgnoreError();
  const absl::StatusOr<std::string> term = ReadFile(disks_.files, "/run/TERM");
  chief_term_ = term.ok() ? static_cast<uint64_t>(std::atoll(term->c_str())) : 0;
  newest_step_ = status.last_checkpoint_step();
  Note(absl::StrCat("chief of term ", chief_term_, " resumes from step ", newest_step_));
  Add(EventOf(HistoryEvent::kChiefStarts, chief_term_, 0, newest_step_));
  if (std::exchange(stop_was_slow_, false)) counts_.slow_stops.insert(newest_step_);
  if (!std::exchange(workers_are_gone_, false)) return;
  counts_.last_checkpoint = newest_step_;
  for (uint32_t i = 0; i < run_.num_workers; ++i) StartLater(absl::StrCat("worker/", i), 0.2, 4);
}

void ClusterSimulation::LoseWorkers() {
  if (chief_ == nullptr || !current_["chief"]->process.alive) return;
  v1::GetRunStatusResponse status;
  chief_->GetRunStatus(v1::GetRunStatusRequest(), &status).IgnoreError();
  if (status.state().phase() != v1::RunState::PHASE_TRAINING) return;
  workers_are_gone_ = true;
  counts_.step_without_workers = status.step();
  for (uint32_t i = 0; i < run_.num_workers; ++i) KillTask(absl::StrCat("worker/", i));
  v1::RequestStopRequest request;
  request.set_stop(true);
  request.set_no_more_steps(true);
  RequestStop(request);
}

void ClusterSimulation::RequestStop(const v1::RequestStopRequest& request) {
  if (request.stop()) stop_requested_at_ = fibers_.now();
  Life* const chief = current_["chief"];
  if (chief_ == nullptr || !chief->process.alive) return;
  ++chief->process.serving;
  fibers_.Start(&chief->process.host, [chief, request] {
    v1::RequestStopResponse response;
    if (chief->process.chief != nullptr) {
      chief->process.chief->RequestStop(request, &response).IgnoreError();
    }
    --chief->process.serving;
  });
}

// Checks the chief a few times a second.
void ClusterSimulation::Watch() {
  for (const PlannedFault& fault : plan_.faults) {
    if (fault.at <= fibers_.seconds() && fibers_.seconds() <= fault.at + fault.seconds) {
      AddTrouble();
      break;
    }
  }
  Life* const life = current_["chief"];
  if (chief_ != nullptr && life->process.alive && !life->process.host.paused) {
    v1::GetRunStatusResponse status;
    chief_->GetRunStatus(v1::GetRunStatusRequest(), &status).IgnoreError();
    const v1::RunState& state = status.state();
    WatchLeases(status);
    if (state.phase() == v1::RunState::PHASE_TRAINING) {
      Add(EventOf(HistoryEvent::kVersion, chief_term_, state.lineage(), status.step()));
      newest_step_ = status.step();
      highest_step_ = std::max(highest_step_, newest_step_);
    }
    if (state.phase() == v1::RunState::PHASE_FAILED && failed_term_ < chief_term_) {
      failed_term_ = chief_term_;
      counts_.failures.push_back(state.message());
      HistoryEvent event = EventOf(HistoryEvent::kFailed, chief_term_, state.lineage());
      event.text = state.message();
      Add(event);
    }
    if (fault_time_ >= 0 && newest_step_ >= wanted_step_) {
      counts_.recoveries.push_back({plan_.faults[0].kind, fibers_.seconds() - fault_time_});
      fault_time_ = -1;
    }
    if (status.last_checkpoint_step() > 0) {
      Add(EventOf(HistoryEvent::kDurable, chief_term_, state.lineage(),
                  status.last_checkpoint_step()));
    }
  }
  if (!over_ && !ending_) fibers_.After(kBetweenLooks, [this] { Watch(); });
}

void ClusterSimulation::WatchLeases(const v1::GetRunStatusResponse& status) {
  const v1::RunState::Phase phase = status.state().phase();
  if (phase == v1::RunState::PHASE_DONE || phase == v1::RunState::PHASE_FAILED) return;
  for (const v1::Member& member : status.lost()) {
    HistoryEvent event = EventOf(HistoryEvent::kLost, chief_term_);
    event.task = absl::StrCat(member.job() == v1::JOB_PS ? "ps/" : "worker/", member.index());
    if (current_[event.task]->process.alive) Add(event);
  }
  for (const auto& life : lives_) {
    SimulatedProcess& process = life->process;
    const v1::Identity* identity = process.connection.get();
    if (!process.alive || identity == nullptr || identity->member().job() != v1::JOB_PS ||
        identity->term() != chief_term_) {
      continue;
    }
    const auto member = std::find_if(
        status.tasks().begin(), status.tasks().end(),
        [&](const auto& task) { return task.incarnation() == identity->incarnation(); });
    if (member != status.tasks().end()) {
      process.last_contact = fibers_.now() - absl::Seconds(member->seconds_since_heartbeat());
      process.lease_ended = absl::InfiniteFuture();
    } else if (process.lease_ended == absl::InfiniteFuture()) {
      // The chief takes a place earlier from a ps that workers do not reach. The last contact with
      // such a ps may have been after the look before this one; incarnations guard that.
      const absl::Duration lease = absl::Seconds(run_.run.cluster().lease_seconds());
      const bool ended_early = fibers_.now() < process.last_contact + lease;
      const absl::Time whole =
          (ended_early ? fibers_.now() : process.last_contact + kBetweenLooks) + lease;
      process.lease_ended = std::max(fibers_.now(), whole);
    }
    if (process.acted <= process.lease_ended) continue;
    HistoryEvent event = EventOf(HistoryEvent::kActs, chief_term_);
    event.task = process.address;
    Add(event);
  }
}

std::string ClusterSimulation::Stuck() const {
  std::string text = absl::StrCat("the run did not end in ", kPatience, " s");
  if (chief_ == nullptr) return text + "; there is no chief";
  v1::GetRunStatusResponse status;
  chief_->GetRunStatus(v1::GetRunStatusRequest(), &status).IgnoreError();
  return absl::StrCat(text, ": step ", status.step(), ", ", status.waits_for(), " ",
                      status.state().ShortDebugString());
}

std::string ClusterSimulation::Run() {
  disks_.files.MakeDirectory("/run").IgnoreError();
  Start("chief");
  for (uint32_t i = 0; i < run_.num_ps; ++i) Start(absl::StrCat("ps/", i));
  for (uint32_t i = 0; i < run_.num_workers; ++i) Start(absl::StrCat("worker/", i));
  for (const PlannedFault& fault : plan_.faults) {
    fibers_.After(absl::Seconds(fault.at), [this, fault] { Inject(fault); });
  }
  if (options_.workers_gone_at > 0) {
    fibers_.After(absl::Seconds(options_.workers_gone_at), [this] { LoseWorkers(); });
  }
  Watch();
  const auto all_ended = [this] {
    return std::all_of(lives_.begin(), lives_.end(), [](const auto& life) { return life->ended; });
  };
  fibers_.Run(Fibers::kStart + absl::Seconds(kPatience), [this] { return over_; });
  if (!over_) failure_ = Stuck();
  counts_.seconds = fibers_.seconds();
  // Tasks learn that the run is over, or that nobody answers.
  const absl::Time end = fibers_.now() + absl::Seconds(over_ ? 120 : 0);
  fibers_.Run(end, all_ended);
  ending_ = true;
  if (over_ && !all_ended()) {
    failure_ =
        absl::StrCat("two minutes after the end of the run still there:", fibers_.Describe());
  }
  for (const auto& [task, life] : current_) {
    if (!life->ended) KillTask(task);
  }
  for (const auto& life : lives_) fibers_.Resume(&life->process.host);
  if (!fibers_.Run(fibers_.now() + absl::Seconds(3600),
                   [this] { return fibers_.num_fibers() == 0; })) {
    std::fprintf(stderr, "seed %llu: threads that do not end: %s\n",
                 static_cast<unsigned long long>(options_.seed), fibers_.Describe().c_str());
    std::abort();
  }
  counts_.turns = fibers_.num_turns();
  counts_.network = network_.counts;
  counts_.failed_changes = disks_.failed;
  if (failure_.empty()) failure_ = Judge();
  return failure_;
}

}  // namespace shoal
