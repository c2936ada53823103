#ifndef SHOAL_TESTS_SIMULATION_ASYNC_WORLD_H_
#define SHOAL_TESTS_SIMULATION_ASYNC_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/v1/variable.pb.h"
#include "runtime/cluster/batch_key.h"
#include "runtime/cluster/slice_table.h"
#include "runtime/cluster/step_plan.h"
#include "runtime/variables/interval_set.h"
#include "runtime/variables/variable_store.h"
#include "tests/simulation/virtual_network.h"

namespace shoal {

class AsyncChief;
class AsyncPs;
class AsyncWorker;

// One ASYNC run in virtual time, with everything that follows from its seed: how many tasks, what
// is trained, which messages are lost, repeated and reordered, who dies when, which batches are
// bad. The objects under test are the real DataLedger, AsyncStepLogic and SliceStore; the rest
// (network, disk, launcher, membership) is played here.
//
// The model counts: element b of every slice is the number of times that batch b was applied to it
// (learning rate 1, the contribution of batch b is -1 there and 0 elsewhere), so the sum of a slice
// is its number of updates, and a checkpoint shows what was lost or doubled.
class AsyncWorld {
 public:
  // Promises that can be broken, one at a time, to prove that the oracle notices.
  struct Broken {
    bool dedupe = false;           // a ps applies a repeated batch
    bool reissue = false;          // what a ps lost is not issued again
    bool applied_on_disk = false;  // snapshots without their applied sets
    bool call_numbers = false;     // a late LeaseBatches call counts as a new one
  };

  AsyncWorld(uint64_t seed, const Broken& broken);
  ~AsyncWorld();

  // The first thing that went wrong; empty: nothing.
  std::string Run();

  // What happened, for tests of the simulator itself.
  struct Counts {
    uint64_t worker_deaths = 0;
    uint64_t ps_deaths = 0;
    uint64_t chief_deaths = 0;
    uint64_t masked_leases = 0;
    uint64_t duplicates = 0;
    uint64_t refusals = 0;
    uint64_t skips = 0;
    uint64_t evaluations = 0;
    uint64_t cuts = 0;
    uint64_t events = 0;
  };
  const Counts& counts() const { return counts_; }

  // --- For the tasks of the world.

  struct Settings {
    uint32_t num_workers = 1;
    uint32_t num_ps = 1;
    uint32_t num_epochs = 1;
    uint64_t max_steps = 0;
    uint64_t evaluate_every = 0;
    uint64_t evaluation_blocks = 0;
    int64_t max_staleness = -1;
    int64_t clock_bound = -1;
    bool aborts_moved = false;    // the transport gives up when a ps has moved, or waits
    bool forgets_epochs = false;  // after a durable checkpoint
    bool ledger_at_request =
        false;               // the manifest has the ledger of the cut's start, or of its end
    double death_until = 0;  // seconds
  };
  enum class Badness { kLoss, kGradient, kPayload, kCrash };

  VirtualNetwork& network() { return network_; }
  const Settings& settings() const { return settings_; }
  const Broken& broken() const { return broken_; }
  const StepPlan& plan() const { return plan_; }
  const std::vector<v1::VariableSpec>& variables() const { return variables_; }
  const SliceTable& table() const { return table_; }
  const std::vector<uint32_t>& owner() const { return owner_; }
  const std::vector<ExchangeGroup>& groups() const { return groups_; }
  const Badness* BadnessOf(const BatchKey& batch) const;
  uint64_t ElementOf(const BatchKey& batch) const;
  Counts& counts() { return counts_; }
  void Fail(const std::string& what);

  AsyncChief* chief() { return chief_.get(); }  // null while it is dead
  std::shared_ptr<AsyncPs> ps(uint32_t index) { return ps_[index]; }
  uint64_t NextIncarnation() { return ++last_incarnation_; }
  void KillWorker(uint32_t index);  // a launcher starts another soon

  // Checkpoints: what a manifest names is durable.
  struct SliceRecord {
    std::vector<float> value;
    uint64_t version = 0;
    std::vector<EpochBatches> applied;
  };
  using Shard = std::map<uint32_t, SliceRecord>;  // by slice
  struct Checkpoint {
    std::map<uint32_t, Shard> shards;  // by ps
    std::string ledger;
    bool is_durable = false;
  };
  std::map<uint64_t, Checkpoint>& disk() { return disk_; }
  uint64_t newest_checkpoint() const { return newest_checkpoint_; }  // 0: none
  void SetNewestCheckpoint(uint64_t name) { newest_checkpoint_ = name; }
  // The run is over, with this checkpoint.
  void End() { has_ended_ = true; }

  // Evaluations: what should be, and what was.
  void Evaluated(uint64_t version, uint64_t block);
  // Were there no deaths and no bad batches? Then every slice has exactly `version` updates.
  bool is_undisturbed() const;

 private:
  void DrawSettings();
  void DrawModel();
  void DrawBadBatches();
  void DrawDeaths();
  void StartWorker(uint32_t index);
  void StartPs(uint32_t index);
  void StartChief();
  void KillPs(uint32_t index);
  void KillAll();
  void CheckEnd();
  void CheckSlice(const SliceRecord& record, const std::set<BatchKey>& skipped,
                  const BatchKey& next);
  void CheckEvaluations(uint64_t updates, bool has_skips);

  VirtualNetwork network_;
  const Broken broken_;
  Settings settings_;
  StepPlan plan_;
  std::vector<v1::VariableSpec> variables_;
  SliceTable table_;
  std::vector<uint32_t> owner_;
  std::vector<ExchangeGroup> groups_;
  std::map<BatchKey, Badness> bad_;
  Counts counts_;
  std::string failure_;
  bool has_ended_ = false;

  uint64_t last_incarnation_ = 0;
  std::shared_ptr<AsyncChief> chief_;
  std::vector<std::shared_ptr<AsyncPs>> ps_;
  std::vector<std::shared_ptr<AsyncWorker>> workers_;
  uint64_t launch_ = 0;  // rises with every start of the whole run
  std::map<uint64_t, Checkpoint> disk_;
  uint64_t newest_checkpoint_ = 0;
  std::map<uint64_t, std::set<uint64_t>> evaluated_;  // version -> blocks, in one life of the chief
  std::set<uint64_t> fully_evaluated_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_ASYNC_WORLD_H_
