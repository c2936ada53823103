#ifndef SHOAL_TESTS_SIMULATION_SYNC_WORLD_H_
#define SHOAL_TESTS_SIMULATION_SYNC_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chief/training_session.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/variables/slice_store.h"
#include "tests/simulation/simulated_disk.h"
#include "tests/simulation/simulated_model.h"
#include "tests/simulation/virtual_network.h"

namespace shoal {

class SimulatedPs;
class SimulatedWorker;

// Promises that a simulation can break, to prove that it would notice.
struct SyncBroken {
  SliceStoreOptions::Broken store;
  BadBatchDecisions::Broken decisions;
  bool lineage = false;              // a ps takes contributions of any lineage
  bool loads_only_the_lost = false;  // after a loss, ps that are alive do not go back
};

// What a run is made of, drawn from the seed.
struct SyncScenario {
  uint64_t seed = 0;
  SyncBroken broken;
  uint32_t num_ps = 1;
  uint32_t num_workers = 1;
  v1::RunConfig run;
  uint64_t train_examples = 1;
  uint64_t evaluation_blocks = 0;
  uint64_t staging_bytes = 1 << 20;
  bool workers_check_finite = true;  // otherwise the ps finds out
  std::set<BatchKey> non_finite;     // in some slices
  std::set<BatchKey> deadly;         // kill whoever computes them
  std::set<BatchKey> flaky;          // kill every other time
};

// Everything that the simulated processes share: the network, the disk, the one chief, and who is
// alive.
struct SyncWorld {
  explicit SyncWorld(const SyncScenario& scenario)
      : scenario(scenario), network(scenario.seed), model(scenario.seed) {}

  SyncScenario scenario;
  VirtualNetwork network;
  SimulatedModel model;
  SimulatedDisk disk;
  std::unique_ptr<TrainingSession> session;
  uint64_t term = 0;  // of the session: rises with every start of a chief
  std::map<uint32_t, std::shared_ptr<SimulatedPs>> ps;  // alive, by index
  std::map<uint32_t, std::shared_ptr<SimulatedWorker>> workers;
  uint64_t next_nonce = 1;
  std::string failure;  // the first broken promise

  void Fail(const std::string& what) {
    if (failure.empty()) failure = what;
  }

  // Calls `handle` at the chief and `done` with its answer: both maybe never, maybe twice, late.
  template <typename Handle, typename Done>
  void CallChief(Handle handle, Done done) {
    network.Send([this, handle, done] {
      auto answer = handle(*session);
      network.Send([done, answer] { done(answer); });
    });
  }
};

inline v1::Identity IdentityOf(uint64_t term, v1::Job job, uint32_t index, uint64_t incarnation,
                               uint64_t lineage) {
  v1::Identity identity;
  identity.set_run_id("simulated");
  identity.set_term(term);
  identity.mutable_member()->set_job(job);
  identity.mutable_member()->set_index(index);
  identity.set_incarnation(incarnation);
  identity.set_lineage(lineage);
  return identity;
}

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SYNC_WORLD_H_
