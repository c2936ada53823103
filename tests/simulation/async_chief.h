#ifndef SHOAL_TESTS_SIMULATION_ASYNC_CHIEF_H_
#define SHOAL_TESTS_SIMULATION_ASYNC_CHIEF_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/data_ledger.h"
#include "runtime/variables/interval_set.h"
#include "tests/simulation/async_world.h"
#include "worker/async_step_logic.h"

namespace shoal {

// One life of the chief: a DataLedger, leases, restores and checkpoints as a chief would do them.
class AsyncChief : public std::enable_shared_from_this<AsyncChief> {
 public:
  explicit AsyncChief(AsyncWorld* world);

  void Start() { Tick(); }
  void Kill() { is_alive_ = false; }

  // A new life of a worker; its incarnation.
  uint64_t RegisterWorker(uint32_t index);
  void RegisterPs(uint32_t index, uint64_t incarnation);
  // The lease of a ps ended.
  void OnPsDead(uint32_t index, uint64_t incarnation);

  // What it waits for.
  std::string Describe() const;

  struct HeartbeatReply {
    bool is_fenced = false;
    AsyncView view;
  };
  HeartbeatReply OnHeartbeat(uint32_t worker, uint64_t incarnation);
  // False: refused, the worker is fenced.
  bool OnLeaseCall(uint32_t worker, uint64_t incarnation, uint64_t view, const LeaseCall& call,
                   LeaseAnswer* answer);
  void OnBlock(uint64_t version, uint64_t block);
  void OnBadBatch(const BatchKey& batch);
  void OnCrash(uint32_t worker, uint64_t incarnation, const BatchKey& batch);

 private:
  struct Worker {
    uint64_t incarnation = 0;
    absl::Time heard;
  };
  struct Ps {
    enum State { kLost, kLoading, kAsking, kServing };
    State state = kLost;
    uint64_t incarnation = 0;
    std::map<uint32_t, IntervalSet> applied;  // kAsking: what it has answered
  };
  struct Cut {
    uint64_t name = 0;
    uint32_t first_open_epoch = 0;
    uint32_t first_kept_epoch = 0;  // what ps are told: older ones are in a durable checkpoint
    std::string ledger;
    absl::Time begin;
    bool is_final = false;
  };

  void Tick();
  void EndLeases();
  void CommandPs(uint32_t index);
  void AskApplied(uint32_t index);
  void OnAllApplied(uint32_t index);
  void AdvanceCut();
  void BeginCut();
  void OnDurable();
  void CheckForgotten(const Cut& cut);
  uint32_t FirstKeptEpoch() const;

  AsyncWorld* const world_;
  bool is_alive_ = true;
  DataLedger ledger_;
  uint64_t number_ = 1;  // of the run's state
  std::map<uint32_t, Worker> workers_;
  std::vector<Ps> ps_;
  std::optional<Cut> cut_;
  absl::Time next_cut_;
  uint64_t calls_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_ASYNC_CHIEF_H_
