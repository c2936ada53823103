#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_WORKER_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/v1/chief_service.pb.h"
#include "tests/simulation/simulated_store.h"
#include "tests/simulation/sync_world.h"
#include "worker/sync_step_logic.h"

namespace shoal {

// One life of a worker task: a SyncStepLogic, and what the trainer around it does.
class SimulatedWorker : public std::enable_shared_from_this<SimulatedWorker> {
 public:
  SimulatedWorker(SyncWorld* world, uint32_t index);

  void Start() { Register(); }
  void Kill();
  bool is_alive() const { return alive_; }
  uint64_t incarnation() const { return incarnation_; }
  std::string Activity() const { return logic_ == nullptr ? "without a run" : logic_->Activity(); }
  // The process ended. Set by whoever starts it again.
  std::function<void()> on_death;

 private:
  void Register();
  void Heartbeat(bool repeats);
  void OnState(const v1::RunState& state);
  void CreateLogic(const v1::RunState& state);
  void After(double seconds, std::function<void()> what);

  void Pump();
  void Execute(const SyncAction& action);
  void StartPulls(const SyncAction& action);
  void Evaluate(const SyncAction& action);
  void ReportEvaluation(const v1::ReportEvaluationRequest& request, uint64_t ticket);
  void ReportBad(const v1::ReportBadBatchRequest& request, uint64_t ticket);
  void BeginCompute(const SyncAction& action);
  void ComputeGroup(const SyncAction& action, uint64_t values_hash, uint32_t group,
                    uint32_t dies_before);
  void PushGroup(const SyncAction& action, uint64_t values_hash, uint32_t group);
  void EndCompute(const SyncAction& action, uint64_t values_hash);
  void Crash();
  bool IsBadSlice(const BatchKey& batch, uint32_t slice) const;
  bool IsDangerous(const BatchKey& batch) const;

  SyncWorld* const world_;
  const uint32_t index_;
  const uint64_t term_;
  const std::string nonce_;
  bool alive_ = true;
  uint64_t incarnation_ = 0;
  uint64_t known_state_ = 0;
  uint64_t lineage_ = 0;
  std::unique_ptr<SyncStepLogic> logic_;
  std::shared_ptr<SimulatedStore> store_;
  SliceArrays parameters_[2];
  SliceArrays gradients_[2];
  std::vector<std::vector<float*>> parameter_pointers_[2];  // by group, by slice in it
  std::vector<std::vector<const void*>> gradient_pointers_[2];
  bool busy_ = false;  // an action is being executed
  bool in_next_ = false;
  bool has_batch_ = false;
  BatchKey batch_;
  bool batch_is_known_ = false;  // the chief has acknowledged that this batch is in hand
  absl::Time wake_ = absl::InfiniteFuture();
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_WORKER_H_
