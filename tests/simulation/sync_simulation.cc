#include "tests/simulation/sync_simulation.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/simulation/simulated_ps.h"
#include "tests/simulation/simulated_worker.h"

namespace shoal {
namespace {

constexpr double kFaultSeconds = 20;
constexpr double kPatienceSeconds = 2000;

void DrawOptimizer(VirtualNetwork& random, v1::OptimizerConfig* optimizer) {
  optimizer->set_learning_rate(0.05);
  switch (random.Below(3)) {
    case 0:
      optimizer->mutable_sgd();
      break;
    case 1:
      optimizer->mutable_momentum();
      break;
    default:
      optimizer->mutable_adam();
  }
  if (random.Chance(0.25)) optimizer->set_clip_by_global_norm(random.Uniform(0.5, 3));
}

void DrawBadBatches(VirtualNetwork& random, uint64_t num_batches, uint32_t epochs,
                    SyncScenario* scenario) {
  for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint64_t index = 0; index < num_batches; ++index) {
      const BatchKey batch{epoch, index};
      if (random.Chance(0.04)) {
        scenario->non_finite.insert(batch);
      } else if (random.Chance(0.03)) {
        scenario->deadly.insert(batch);
      } else if (random.Chance(0.05)) {
        scenario->flaky.insert(batch);
        if (random.Chance(0.4)) scenario->non_finite.insert(batch);
      }
    }
  }
}

}  // namespace

SyncScenario SyncSimulation::Draw(uint64_t seed, const SyncBroken& broken) {
  VirtualNetwork random(seed ^ 0x9e3779b97f4a7c15);
  SyncScenario scenario;
  scenario.seed = seed;
  scenario.broken = broken;
  scenario.num_ps = random.Between(1, 4);
  scenario.num_workers = random.Between(1, 5);
  scenario.workers_check_finite = random.Chance(0.7);
  scenario.staging_bytes = random.Chance(0.3) ? 128 : 1 << 20;
  scenario.evaluation_blocks = random.Between(0, 3);
  const uint32_t batch_size = random.Between(1, 4);
  const uint32_t replicas = random.Between(1, 4);
  scenario.train_examples = random.Between(1, replicas * batch_size * 12);
  const uint32_t epochs = random.Between(1, 3);

  v1::RunConfig& run = scenario.run;
  run.set_batch_size(batch_size);
  run.set_num_epochs(epochs);
  if (random.Chance(0.3)) run.set_max_steps(random.Between(2, 30));
  run.set_seed(seed);
  run.set_eval_every(random.Between(0, 3));
  run.mutable_checkpoint()->set_save_every(random.Between(0, 3));
  run.mutable_sync()->set_sync_replicas(true);
  run.mutable_sync()->set_replicas_to_aggregate(replicas);
  run.mutable_deployment()->set_num_replicas(scenario.num_workers);
  run.mutable_cluster()->set_slice_bytes(64);
  DrawOptimizer(random, run.mutable_optimizer());
  DrawBadBatches(random, (scenario.train_examples + batch_size - 1) / batch_size, epochs,
                 &scenario);
  return scenario;
}

SyncSimulation::SyncSimulation(uint64_t seed, const SyncBroken& broken)
    : world_(Draw(seed, broken)) {}

// All processes start, from the newest checkpoint if there is one.
void SyncSimulation::StartLife() {
  TrainingSession::Options options;
  options.run = world_.scenario.run;
  options.run_id = "simulated";
  options.term = ++world_.term;
  options.num_ps_tasks = world_.scenario.num_ps;
  options.lease = absl::Seconds(3);
  options.grace = absl::Milliseconds(300);
  options.peer_wait = absl::InfiniteDuration();
  options.ps_return_wait = absl::InfiniteDuration();
  options.resend = absl::Milliseconds(500);
  options.resend_load = absl::Seconds(1);
  options.broken = world_.scenario.broken.decisions;
  const std::string directory = world_.disk.NewestDirectory();
  if (!directory.empty()) {
    options.manifest = *world_.disk.FindManifest(directory);
    options.manifest_directory = directory;
  }
  lines_.erase(lines_.upper_bound(directory.empty() ? 0 : options.manifest->step()), lines_.end());
  world_.session = std::make_unique<TrainingSession>(options);
  for (uint32_t i = 0; i < world_.scenario.num_ps; ++i) StartPs(i);
  for (uint32_t i = 0; i < world_.scenario.num_workers; ++i) StartWorker(i);
}

void SyncSimulation::EndLife() {
  ++counts_.resumes;
  everything_dies_ = false;
  for (auto& [index, ps] : world_.ps) ps->Kill();
  for (auto& [index, worker] : world_.workers) {
    worker->on_death = nullptr;
    worker->Kill();
  }
}

SyncSimulation::~SyncSimulation() {
  // Ends what workers and their stores hold of each other.
  for (auto& [index, worker] : world_.workers) {
    worker->on_death = nullptr;
    worker->Kill();
  }
}

void SyncSimulation::StartPs(uint32_t index) {
  world_.ps[index] = std::make_shared<SimulatedPs>(&world_, index);
  world_.ps[index]->Start();
}

void SyncSimulation::StartWorker(uint32_t index) {
  auto worker = std::make_shared<SimulatedWorker>(&world_, index);
  worker->on_death = [this, index] {
    ++counts_.worker_deaths;
    world_.network.After(world_.network.Uniform(0.2, 4), [this, index, term = world_.term] {
      if (world_.term == term) StartWorker(index);
    });
  };
  world_.workers[index] = worker;
  worker->Start();
}

void SyncSimulation::ScheduleFaults() {
  VirtualNetwork& network = world_.network;
  const double loss[] = {0, 0.05, 0.2};
  network.set_faults({loss[network.Below(3)], network.Chance(0.5) ? 0.1 : 0,
                      network.now() + absl::Seconds(network.Uniform(5, kFaultSeconds))});
  for (uint64_t i = network.Below(7); i > 0; --i) {
    network.After(network.Uniform(0, kFaultSeconds), [this] { Fault(); });
  }
}

void SyncSimulation::Fault() {
  VirtualNetwork& network = world_.network;
  const double kind = network.Uniform(0, 1);
  if (kind < 0.55) {
    const uint32_t index = static_cast<uint32_t>(network.Below(world_.scenario.num_workers));
    world_.workers[index]->Kill();
  } else if (kind < 0.9) {
    const uint32_t index = static_cast<uint32_t>(network.Below(world_.scenario.num_ps));
    if (!world_.ps[index]->is_alive()) return;
    ++counts_.ps_deaths;
    world_.ps[index]->Kill();
  } else if (kind < 0.93) {
    everything_dies_ = true;
  } else {
    v1::RequestStopRequest request;
    request.set_stop(network.Chance(0.2));
    (void)world_.session->RequestStop(network.now(), request);
  }
}

// The driver of the chief's state machine, and the launcher that starts dead ps again.
void SyncSimulation::Tick() {
  TrainingSession& session = *world_.session;
  session.Tick(world_.network.now());
  for (const PsCommand& command : session.TakeCommands(world_.network.now())) Deliver(command);
  for (const SessionRecord& record : session.TakeRecords()) Record(record);
  for (auto& [index, ps] : world_.ps) {
    if (!ps->is_alive() && world_.network.Chance(0.1)) StartPs(index);
  }
  world_.network.After(0.1, [this] { Tick(); });
}

void SyncSimulation::Deliver(const PsCommand& command) {
  world_.network.Send([this, command] {
    const auto& ps = world_.ps[command.ps];
    if (ps->is_alive()) {
      ps->OnCommand(command);
    } else {
      world_.session->OnUndelivered(world_.network.now(), command);
    }
  });
}

void SyncSimulation::Record(const SessionRecord& record) {
  if (const auto* line = std::get_if<StepLine>(&record)) {
    const uint64_t step = line->report.step();
    if (!lines_.empty() && step != lines_.rbegin()->first + 1) {
      world_.Fail(absl::StrCat("line ", step, " follows line ", lines_.rbegin()->first));
    }
    lines_[step] = *line;
  } else if (const auto* rollback = std::get_if<RolledBack>(&record)) {
    ++counts_.rollbacks;
    lines_.erase(lines_.upper_bound(rollback->version), lines_.end());
  } else if (const auto* write = std::get_if<ManifestToWrite>(&record)) {
    WriteManifest(*write);
  } else if (const auto* note = std::get_if<SessionNote>(&record); verbose && note != nullptr) {
    std::printf("%8.3f %s\n", world_.network.seconds(), note->text.c_str());
  }
}

void SyncSimulation::WriteManifest(const ManifestToWrite& write) {
  world_.network.After(world_.network.Uniform(0.01, 0.2), [this, write] {
    const v1::Manifest& manifest = write.manifest;
    if (manifest.term() != world_.term) return;
    if (manifest.lineage() == world_.session->state().lineage()) {
      world_.disk.WriteManifest(write.directory, manifest);
    }
    world_.session->OnManifestWritten(world_.network.now(), write, absl::OkStatus());
  });
}

std::string SyncSimulation::Run() {
  StartLife();
  ScheduleFaults();
  Tick();
  while (world_.failure.empty() && world_.network.Advance()) {
    const v1::RunState& state = world_.session->state();
    if (state.phase() == v1::RunState::PHASE_FAILED) {
      world_.Fail(absl::StrCat("failed: ", state.message()));
    }
    if (world_.network.seconds() > kPatienceSeconds) {
      world_.Fail(absl::StrCat("stuck at step ", world_.session->newest_step(), " of ",
                               state.last_step(), ": ", WhoWaits()));
    }
    const bool is_over = state.phase() == v1::RunState::PHASE_DONE;
    if (is_over && !world_.session->interrupted()) break;
    if (!is_over && !everything_dies_) continue;
    for (const SessionRecord& record : world_.session->TakeRecords()) Record(record);
    EndLife();
    StartLife();
  }
  for (const SessionRecord& record : world_.session->TakeRecords()) Record(record);
  counts_.events = world_.network.num_events();
  if (world_.failure.empty()) Judge();
  return world_.failure;
}

std::string SyncSimulation::WhoWaits() const {
  const v1::RunState& state = world_.session->state();
  std::string text = absl::StrCat("phase ", static_cast<int>(state.phase()), " lineage ",
                                  state.lineage(), " durable ", world_.session->durable_version());
  for (const auto& [index, worker] : world_.workers) {
    absl::StrAppend(&text, "; worker/", index, worker->is_alive() ? " " : " (dead) ",
                    worker->Activity());
  }
  for (const auto& [index, ps] : world_.ps) {
    absl::StrAppend(&text, "; ps/", index, ps->is_alive() ? "" : " (dead)",
                    ps->is_serving() ? " at" : " not serving");
    if (!ps->is_serving()) continue;
    for (uint32_t slice : ps->store()->owned()) {
      absl::StrAppend(&text, " ", static_cast<int64_t>(ps->store()->newest_version(slice)));
    }
  }
  return text;
}

// The verdict.

void SyncSimulation::Judge() {
  const RunPlan* plan = world_.session->plan();
  if (plan == nullptr) return;  // stopped before it began
  std::set<BatchKey> skipped;
  for (const v1::BatchId& batch : world_.session->state().skipped()) skipped.insert(KeyOf(batch));
  for (const BatchKey& batch : skipped) {
    const SyncScenario& scenario = world_.scenario;
    if (scenario.non_finite.count(batch) + scenario.deadly.count(batch) +
            scenario.flaky.count(batch) ==
        0) {
      world_.Fail(absl::StrCat("batch ", batch.index, " was skipped without reason"));
    }
  }
  counts_.skipped = skipped.size();
  const uint64_t end = world_.session->durable_version();
  SequentialRun sequential(world_.model, world_.scenario.run, plan->steps, skipped);
  while (sequential.version() < end) {
    const SequentialRun::StepSums sums = sequential.Step();
    JudgeStep(sequential, sums);
  }
  counts_.steps = end;
  if (end > 0) JudgeCut(sequential);
  if (end != plan->last_step) {
    world_.Fail(absl::StrCat("ended at ", end, " instead of ", plan->last_step));
  }
}

void SyncSimulation::JudgeStep(const SequentialRun& sequential,
                               const SequentialRun::StepSums& sums) {
  const uint64_t step = sequential.version();
  const auto it = lines_.find(step);
  if (it == lines_.end()) {
    world_.Fail(absl::StrCat("step ", step, " has no line"));
    return;
  }
  const v1::StepReport& report = it->second.report;
  if (report.loss_sum() != sums.loss_sum || report.regularization() != sums.regularization ||
      report.correct() != sums.correct || report.examples() != sums.examples) {
    world_.Fail(absl::StrCat("line ", step, ": loss ", report.loss_sum(), " over ",
                             report.examples(), " instead of ", sums.loss_sum, " over ",
                             sums.examples));
  }
  if (!it->second.evaluation.has_value()) return;
  double loss = 0;
  for (uint64_t block = 0; block < world_.scenario.evaluation_blocks; ++block) {
    loss += SimulatedModel::EvaluationLoss(SimulatedModel::HashOf(sequential.values()), block);
  }
  if (it->second.evaluation->loss_sum != loss)
    world_.Fail(absl::StrCat("step ", step, ": wrong evaluation"));
}

void SyncSimulation::JudgeCut(const SequentialRun& sequential) {
  const std::string& directory = world_.session->durable_directory();
  for (uint32_t slice = 0; slice < world_.model.table().size(); ++slice) {
    SimulatedDisk::Record record;
    if (absl::Status status = world_.disk.Read(directory, slice, &record); !status.ok()) {
      return world_.Fail(std::string(status.message()));
    }
    if (record.value != sequential.values()[slice]) {
      return world_.Fail(absl::StrCat("slice ", slice, ": value differs from the sequential run"));
    }
    if (record.slots != sequential.slots()[slice]) {
      return world_.Fail(absl::StrCat("slice ", slice, ": slots differ from the sequential run"));
    }
  }
}

}  // namespace shoal
