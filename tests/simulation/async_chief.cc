#include "tests/simulation/async_chief.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/simulation/async_ps.h"

namespace shoal {
namespace {

constexpr double kTickSeconds = 0.2;
constexpr absl::Duration kLease = absl::Seconds(3);
constexpr absl::Duration kCutPatience = absl::Seconds(15);

DataLedger::Options OptionsOf(const AsyncWorld::Settings& settings) {
  DataLedger::Options options;
  options.num_workers = settings.num_workers;
  options.max_steps = settings.max_steps;
  options.num_epochs = settings.num_epochs;
  options.evaluate_every = settings.evaluate_every;
  options.evaluation_blocks = settings.evaluation_blocks;
  options.clock_bound = settings.clock_bound;
  return options;
}

}  // namespace

AsyncChief::AsyncChief(AsyncWorld* world)
    : world_(world),
      ledger_(OptionsOf(world->settings()), world->plan()),
      ps_(world->settings().num_ps) {
  for (uint32_t ps = 0; ps < ps_.size(); ++ps) ledger_.OnPsLost(ps);
  if (world->newest_checkpoint() != 0) {
    const absl::Status status = ledger_.Restore(world->disk()[world->newest_checkpoint()].ledger);
    if (!status.ok()) world->Fail(status.ToString());
  }
  next_cut_ = world->network().now() + absl::Seconds(world->network().Uniform(1, 6));
}

uint64_t AsyncChief::RegisterWorker(uint32_t index) {
  const uint64_t incarnation = world_->NextIncarnation();
  ledger_.OnWorkerLost(index, incarnation);
  workers_[index] = {incarnation, world_->network().now()};
  return incarnation;
}

void AsyncChief::RegisterPs(uint32_t index, uint64_t incarnation) {
  ledger_.OnPsLost(index);
  ps_[index] = Ps();
  ps_[index].state = Ps::kLoading;
  ps_[index].incarnation = incarnation;
  cut_.reset();
}

void AsyncChief::OnPsDead(uint32_t index, uint64_t incarnation) {
  if (ps_[index].incarnation != incarnation) return;
  ledger_.OnPsLost(index);
  ps_[index].state = Ps::kLost;
  cut_.reset();
}

std::string AsyncChief::Describe() const {
  std::string text =
      absl::StrCat(ledger_.updates(), " updates, ", ledger_.num_outstanding(), " outstanding",
                   ledger_.is_evaluating() ? ", evaluating" : "", ledger_.is_done() ? ", done" : "",
                   ", ", workers_.size(), " workers, ps");
  for (const Ps& ps : ps_) absl::StrAppend(&text, " ", ps.state);
  return text;
}

AsyncChief::HeartbeatReply AsyncChief::OnHeartbeat(uint32_t worker, uint64_t incarnation) {
  HeartbeatReply reply;
  const auto known = workers_.find(worker);
  reply.is_fenced = known == workers_.end() || known->second.incarnation != incarnation;
  if (reply.is_fenced) return reply;
  known->second.heard = world_->network().now();
  reply.view.number = number_;
  reply.view.lineage = 1;
  reply.view.training = true;
  for (const Ps& ps : ps_) {
    reply.view.ps_incarnations.push_back(ps.state == Ps::kServing ? ps.incarnation : 0);
  }
  return reply;
}

bool AsyncChief::OnLeaseCall(uint32_t worker, uint64_t incarnation, uint64_t view,
                             const LeaseCall& call, LeaseAnswer* answer) {
  const auto known = workers_.find(worker);
  if (known == workers_.end() || known->second.incarnation != incarnation) return false;
  DataLedger::Request request;
  request.worker = worker;
  request.incarnation = incarnation;
  request.view = view;
  request.number = world_->broken().call_numbers ? ++calls_ : call.number;
  request.finished = call.finished;
  request.stale = call.stale;
  request.want = call.want;
  const DataLedger::Answer given = ledger_.LeaseBatches(request);
  for (const DataLedger::Lease& lease : given.leases) {
    answer->leases.push_back({lease.batch, lease.ps});
    if (!lease.ps.empty()) ++world_->counts().masked_leases;
  }
  for (const DataLedger::Block& block : given.evaluations) {
    answer->evaluations.push_back({block.version, block.block});
  }
  return true;
}

void AsyncChief::OnBlock(uint64_t version, uint64_t block) {
  if (ledger_.FinishBlock(version, block)) world_->Evaluated(version, block);
}

void AsyncChief::OnBadBatch(const BatchKey& batch) {
  if (ledger_.Skip(batch, "not finite")) ++world_->counts().skips;
}

void AsyncChief::OnCrash(uint32_t worker, uint64_t incarnation, const BatchKey& batch) {
  if (ledger_.ReportCrash(batch, worker, incarnation)) ++world_->counts().skips;
}

void AsyncChief::Tick() {
  EndLeases();
  for (uint32_t index = 0; index < ps_.size(); ++index) CommandPs(index);
  AdvanceCut();
  world_->network().After(kTickSeconds, [self = shared_from_this()] {
    if (self->is_alive_) self->Tick();
  });
}

void AsyncChief::EndLeases() {
  for (auto it = workers_.begin(); it != workers_.end();) {
    if (world_->network().now() - it->second.heard > kLease) {
      ledger_.OnWorkerLost(it->first, it->second.incarnation);
      it = workers_.erase(it);
    } else {
      ++it;
    }
  }
}

void AsyncChief::CommandPs(uint32_t index) {
  if (ps_[index].state == Ps::kAsking) return AskApplied(index);
  if (ps_[index].state != Ps::kLoading) return;
  const uint64_t checkpoint = world_->newest_checkpoint();
  world_->network().Send([self = shared_from_this(), this, index, checkpoint,
                          epoch = FirstKeptEpoch(), ps = world_->ps(index)] {
    if (!is_alive_ || !ps->is_alive()) return;
    ps->Load(checkpoint, epoch);
    world_->network().Send([self, this, index, incarnation = ps->incarnation()] {
      Ps& known = ps_[index];
      if (known.incarnation == incarnation && known.state == Ps::kLoading) {
        known.state = Ps::kAsking;
      }
    });
  });
}

void AsyncChief::AskApplied(uint32_t index) {
  const auto [first, last] = ledger_.EpochsToAsk();
  bool is_complete = true;
  for (uint32_t epoch = first; epoch <= last; ++epoch) {
    if (ps_[index].applied.count(epoch) > 0) continue;
    is_complete = false;
    world_->network().Send([self = shared_from_this(), this, index, epoch, ps = world_->ps(index)] {
      if (!is_alive_ || !ps->is_alive() || !ps->is_serving()) return;
      world_->network().Send([self, this, index, epoch, incarnation = ps->incarnation(),
                              applied = ps->Applied(epoch)] {
        Ps& known = ps_[index];
        if (known.incarnation == incarnation && known.state == Ps::kAsking) {
          known.applied[epoch] = applied;
        }
      });
    });
  }
  if (is_complete) OnAllApplied(index);
}

void AsyncChief::OnAllApplied(uint32_t index) {
  std::vector<EpochBatches> applied;
  for (auto& [epoch, batches] : ps_[index].applied) {
    applied.push_back({epoch, batches});
    if (world_->broken().reissue) {
      applied.back().batches.InsertRange(0, world_->plan().batches_per_epoch());
    }
  }
  ps_[index].state = Ps::kServing;
  ++number_;
  const absl::Status status = ledger_.OnPsReturned(index, applied, number_);
  if (!status.ok()) world_->Fail(status.ToString());
}

void AsyncChief::AdvanceCut() {
  if (!cut_.has_value()) {
    const bool is_due = ledger_.is_done() || world_->network().now() >= next_cut_;
    const bool can =
        std::all_of(ps_.begin(), ps_.end(), [](const Ps& ps) { return ps.state == Ps::kServing; });
    if (!is_due || !can) return;
    BeginCut();
  }
  const auto& shards = world_->disk()[cut_->name].shards;
  if (shards.size() == ps_.size()) return OnDurable();
  if (world_->network().now() - cut_->begin > kCutPatience) {
    cut_.reset();
    return;
  }
  for (uint32_t index = 0; index < ps_.size(); ++index) {
    if (shards.count(index) > 0) continue;
    world_->network().Send([ps = world_->ps(index), name = cut_->name,
                            epoch = cut_->first_kept_epoch, incarnation = ps_[index].incarnation] {
      if (ps->is_alive() && ps->incarnation() == incarnation) ps->Cut(name, epoch);
    });
  }
}

void AsyncChief::BeginCut() {
  cut_ = Cut();
  cut_->name = world_->NextIncarnation();
  cut_->first_open_epoch = ledger_.FirstOpenEpoch();
  cut_->first_kept_epoch = FirstKeptEpoch();
  cut_->begin = world_->network().now();
  cut_->is_final = ledger_.is_done();
  if (world_->settings().ledger_at_request) cut_->ledger = ledger_.Serialize();
}

void AsyncChief::OnDurable() {
  ++world_->counts().cuts;
  const Cut cut = *cut_;
  cut_.reset();
  next_cut_ = world_->network().now() + absl::Seconds(world_->network().Uniform(1, 6));
  world_->disk()[cut.name].ledger = cut.ledger.empty() ? ledger_.Serialize() : cut.ledger;
  world_->SetNewestCheckpoint(cut.name);
  CheckForgotten(cut);
  if (cut.is_final && ledger_.is_done()) return world_->End();
  if (world_->settings().forgets_epochs) ledger_.ForgetEpochsBefore(cut.first_open_epoch);
}

uint32_t AsyncChief::FirstKeptEpoch() const {
  return world_->settings().forgets_epochs ? ledger_.EpochsToAsk().first : 0;
}

// Applied sets must not pile up from checkpoint to checkpoint.
void AsyncChief::CheckForgotten(const Cut& cut) {
  for (const auto& [ps, shard] : world_->disk()[cut.name].shards) {
    for (const auto& [slice, record] : shard) {
      if (!record.applied.empty() && record.applied.front().epoch < cut.first_kept_epoch) {
        world_->Fail("a shard has applied sets that an older checkpoint covers");
      }
    }
  }
}

}  // namespace shoal
