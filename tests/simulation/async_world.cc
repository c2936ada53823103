#include "tests/simulation/async_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/v1/checkpoint.pb.h"
#include "runtime/variables/exchange_groups.h"
#include "tests/simulation/async_chief.h"
#include "tests/simulation/async_ps.h"
#include "tests/simulation/async_worker.h"

namespace shoal {
namespace {

constexpr uint64_t kElements = 128;  // of a slice: at least as many as there are batches
constexpr double kTooLongSeconds = 2000;

StepPlan DrawPlan(VirtualNetwork* network, uint32_t num_epochs) {
  StepPlan::Options options;
  options.batch_examples = 10;
  options.examples_per_epoch = 10 * (1 + network->Below(kElements / num_epochs)) - 3;
  return *StepPlan::Create(options);
}

}  // namespace

AsyncWorld::AsyncWorld(uint64_t seed, const Broken& broken)
    : network_(seed),
      broken_(broken),
      plan_((settings_.num_epochs = network_.Between(1, 4),
             DrawPlan(&network_, settings_.num_epochs))),
      table_(*SliceTable::Create({}, kElements * sizeof(float))) {
  DrawSettings();
  DrawModel();
  DrawBadBatches();
}

AsyncWorld::~AsyncWorld() {
  if (chief_ != nullptr) chief_->Kill();
}

void AsyncWorld::DrawSettings() {
  VirtualNetwork& draw = network_;
  Settings& settings = settings_;
  settings.num_workers = draw.Between(1, 4);
  settings.num_ps = draw.Between(1, 3);
  const uint64_t batches = plan_.batches_per_epoch() * settings.num_epochs;
  if (draw.Chance(0.3)) settings.max_steps = 1 + draw.Below(batches);
  if (draw.Chance(0.6)) settings.evaluation_blocks = draw.Between(1, 5);
  if (draw.Chance(0.5)) settings.evaluate_every = 1 + draw.Below(batches);
  if (draw.Chance(0.4)) settings.max_staleness = draw.Between(0, 3);
  if (draw.Chance(0.2)) settings.clock_bound = draw.Between(0, 3);
  settings.aborts_moved = draw.Chance(0.5);
  settings.forgets_epochs = draw.Chance(0.5);
  settings.ledger_at_request = draw.Chance(0.5);
  settings.death_until = draw.Uniform(3, 20);
  VirtualNetwork::Faults faults;
  if (draw.Chance(0.8)) faults.lose = draw.Uniform(0, 0.2);
  if (draw.Chance(0.8)) faults.repeat = draw.Uniform(0, 0.2);
  faults.until = absl::UnixEpoch() + absl::Seconds(settings.death_until + 20);
  network_.set_faults(faults);
}

void AsyncWorld::DrawModel() {
  const uint32_t num_variables = network_.Between(1, 4);
  for (uint32_t i = 0; i < num_variables; ++i) {
    v1::VariableSpec& variable = variables_.emplace_back();
    variable.set_name(absl::StrCat("v", i));
    variable.add_shape(network_.Between(1, 2));
    variable.add_shape(kElements);
    variable.set_dtype(v1::DATA_TYPE_FLOAT32);
    // One that nobody contributes to, now and then.
    variable.set_update(i > 0 && network_.Chance(0.2) ? v1::UPDATE_KIND_NONE
                                                      : v1::UPDATE_KIND_OPTIMIZER);
    variable.mutable_initializer()->set_kind(v1::Initializer::KIND_ZEROS);
  }
  table_ = *SliceTable::Create(variables_, kElements * sizeof(float));
  for (uint32_t slice = 0; slice < table_.size(); ++slice) {
    owner_.push_back(static_cast<uint32_t>(network_.Below(settings_.num_ps)));
  }
  groups_ = MakeExchangeGroups(table_, owner_, network_.Between(1, 3) * kElements * sizeof(float));
}

void AsyncWorld::DrawBadBatches() {
  if (!network_.Chance(0.3)) return;
  for (uint32_t i = network_.Between(1, 3); i > 0; --i) {
    const BatchKey batch{static_cast<uint32_t>(network_.Below(settings_.num_epochs)),
                         network_.Below(plan_.batches_per_epoch())};
    bad_[batch] = static_cast<Badness>(network_.Below(4));
  }
}

void AsyncWorld::DrawDeaths() {
  const auto sometime = [this] { return network_.Uniform(0.5, settings_.death_until); };
  if (network_.Chance(0.6)) {
    for (uint32_t i = network_.Between(1, 4); i > 0; --i) {
      const auto index = static_cast<uint32_t>(network_.Below(settings_.num_workers));
      network_.After(sometime(), [this, index] { KillWorker(index); });
    }
  }
  if (network_.Chance(0.6)) {
    for (uint32_t i = network_.Between(1, 3); i > 0; --i) {
      const auto index = static_cast<uint32_t>(network_.Below(settings_.num_ps));
      network_.After(sometime(), [this, index] { KillPs(index); });
    }
  }
  if (network_.Chance(0.15)) network_.After(sometime(), [this] { KillAll(); });
}

std::string AsyncWorld::Run() {
  ps_.resize(settings_.num_ps);
  workers_.resize(settings_.num_workers);
  DrawDeaths();
  StartChief();
  while (!has_ended_ && failure_.empty() && network_.seconds() < kTooLongSeconds) {
    if (!network_.Advance()) break;
    ++counts_.events;
  }
  if (failure_.empty() && !has_ended_)
    Fail(absl::StrCat("the run does not end: ",
                      chief_ == nullptr ? "no chief" : chief_->Describe()));
  if (failure_.empty()) CheckEnd();
  return failure_;
}

void AsyncWorld::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = absl::StrCat(what, " (at ", network_.seconds(), " s)");
}

// --- Lives.

void AsyncWorld::StartChief() {
  evaluated_.clear();
  chief_ = std::make_shared<AsyncChief>(this);
  for (uint32_t i = 0; i < ps_.size(); ++i) StartPs(i);
  for (uint32_t i = 0; i < workers_.size(); ++i) StartWorker(i);
  chief_->Start();
}

void AsyncWorld::StartWorker(uint32_t index) {
  workers_[index] = std::make_shared<AsyncWorker>(this, index, chief_->RegisterWorker(index));
  workers_[index]->Start();
}

void AsyncWorld::StartPs(uint32_t index) {
  ps_[index] = std::make_shared<AsyncPs>(this, index, NextIncarnation());
  chief_->RegisterPs(index, ps_[index]->incarnation());
}

void AsyncWorld::KillWorker(uint32_t index) {
  if (chief_ == nullptr || !workers_[index]->is_alive()) return;
  ++counts_.worker_deaths;
  workers_[index]->Kill();
  network_.After(network_.Uniform(0.2, 5), [this, index, launch = launch_] {
    if (launch == launch_) StartWorker(index);
  });
}

void AsyncWorld::KillPs(uint32_t index) {
  if (chief_ == nullptr || !ps_[index]->is_alive()) return;
  ++counts_.ps_deaths;
  ps_[index]->Kill();
  // Sooner or later the chief notices; a new life may come before that.
  network_.After(network_.Uniform(0, 3),
                 [this, index, launch = launch_, incarnation = ps_[index]->incarnation()] {
                   if (launch == launch_) chief_->OnPsDead(index, incarnation);
                 });
  network_.After(network_.Uniform(0.2, 4), [this, index, launch = launch_] {
    if (launch == launch_) StartPs(index);
  });
}

// The chief dies, and takes everything with it; then the run is resumed.
void AsyncWorld::KillAll() {
  ++counts_.chief_deaths;
  ++launch_;
  chief_->Kill();
  chief_ = nullptr;
  for (const auto& ps : ps_) ps->Kill();
  for (const auto& worker : workers_) worker->Kill();
  network_.After(2, [this] { StartChief(); });
}

// --- What is right.

const AsyncWorld::Badness* AsyncWorld::BadnessOf(const BatchKey& batch) const {
  const auto it = bad_.find(batch);
  return it == bad_.end() ? nullptr : &it->second;
}

uint64_t AsyncWorld::ElementOf(const BatchKey& batch) const {
  return batch.epoch * plan_.batches_per_epoch() + batch.index;
}

bool AsyncWorld::is_undisturbed() const {
  return bad_.empty() && counts_.ps_deaths == 0 && counts_.chief_deaths == 0;
}

void AsyncWorld::Evaluated(uint64_t version, uint64_t block) {
  std::set<uint64_t>& blocks = evaluated_[version];
  if (block >= settings_.evaluation_blocks || !blocks.insert(block).second) {
    Fail(absl::StrCat("block ", block, " of version ", version, " counts twice"));
  }
  if (blocks.size() == settings_.evaluation_blocks) {
    fully_evaluated_.insert(version);
    ++counts_.evaluations;
  }
}

void AsyncWorld::CheckEnd() {
  const Checkpoint& checkpoint = disk_.at(newest_checkpoint_);
  v1::DataLedgerState ledger;
  ledger.ParseFromString(checkpoint.ledger);
  std::set<BatchKey> skipped;
  for (const v1::SkippedBatch& skip : ledger.skipped()) {
    const BatchKey batch{skip.batch().epoch(), skip.batch().index()};
    skipped.insert(batch);
    if (BadnessOf(batch) == nullptr) Fail("a good batch was skipped");
  }
  const BatchKey next{ledger.next().epoch(), ledger.next().index()};
  if (settings_.max_steps != 0 && ledger.updates() > settings_.max_steps) {
    Fail("more updates than max_steps");
  }
  if (next.epoch < settings_.num_epochs &&
      (settings_.max_steps == 0 || ledger.updates() < settings_.max_steps)) {
    Fail("the run ended too early");
  }
  if (next.epoch > settings_.num_epochs) Fail("more epochs than num_epochs");
  for (const auto& [ps, shard] : checkpoint.shards) {
    for (const auto& [slice, record] : shard) {
      if (table_.slice_is_versioned(slice)) CheckSlice(record, skipped, next);
    }
  }
  CheckEvaluations(ledger.updates(), !skipped.empty());
}

// Every batch that was leased was applied exactly once, or at most once if it was skipped.
void AsyncWorld::CheckSlice(const SliceRecord& record, const std::set<BatchKey>& skipped,
                            const BatchKey& next) {
  for (uint32_t epoch = 0; epoch < settings_.num_epochs; ++epoch) {
    for (uint64_t index = 0; index < plan_.batches_per_epoch(); ++index) {
      const BatchKey batch{epoch, index};
      const float times = record.value[ElementOf(batch)];
      const bool may_be_missing = skipped.count(batch) > 0;
      const float wanted = batch < next ? 1.0f : 0.0f;
      if (times == wanted || (may_be_missing && times == 0)) continue;
      Fail(absl::StrCat("batch ", index, " of epoch ", epoch, " was applied ", times, " times"));
    }
  }
}

void AsyncWorld::CheckEvaluations(uint64_t updates, bool has_skips) {
  if (settings_.evaluation_blocks == 0 || updates == 0) return;
  std::set<uint64_t> wanted = {updates};
  const uint64_t every = settings_.evaluate_every;
  if (every > 0 || !has_skips) {
    const uint64_t step = every > 0 ? every : plan_.batches_per_epoch();
    for (uint64_t version = step; version <= updates; version += step) wanted.insert(version);
  }
  for (uint64_t version : wanted) {
    if (fully_evaluated_.count(version) == 0) {
      Fail(absl::StrCat("version ", version, " was not evaluated"));
    }
  }
}

}  // namespace shoal
