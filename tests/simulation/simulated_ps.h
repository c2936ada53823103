#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_PS_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_PS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/training_session.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/variable_store.h"
#include "tests/simulation/sync_world.h"

namespace shoal {

// An Exchange on its way to a ps, with copies of its payloads.
struct ExchangeMessage {
  uint64_t ps_incarnation = 0;
  uint64_t lineage = 0;
  std::vector<uint32_t> slices;
  Exchange exchange;
  std::vector<std::vector<float>> payloads;
};
struct ExchangeReply {
  enum Code { kOk, kMoved, kUnavailable };
  Code code = kOk;
  std::vector<PushOutcome> outcomes;
  std::vector<PulledSlice> pulls;
  std::vector<std::vector<float>> payloads;
  std::vector<uint32_t> missing_positions;
};

// One life of a ps task: a SliceStore, and what the services around it do. Its memory dies with it.
class SimulatedPs : public std::enable_shared_from_this<SimulatedPs> {
 public:
  SimulatedPs(SyncWorld* world, uint32_t index);

  void Start();
  bool is_alive() const { return alive_; }
  void Kill() { alive_ = false; }
  uint64_t incarnation() const { return incarnation_; }
  bool is_serving() const { return serving_; }
  const SliceStore* store() const { return store_.get(); }

  using Reply = std::function<void(const ExchangeReply&)>;
  void OnExchange(const ExchangeMessage& message, const Reply& reply);
  void OnCommand(const PsCommand& command);

 private:
  struct Parked {
    ExchangeMessage message;
    ExchangeReply answer;
    Reply reply;
    absl::Time deadline;
  };

  void Register();
  void Heartbeat();
  void After(double seconds, std::function<void()> what);
  void Load(const v1::LoadSlicesRequest& request);
  bool IsMine(uint64_t lineage) const { return serving_ && lineage == lineage_; }
  void Push(const ExchangeMessage& message, ExchangeReply* reply);
  bool TryPull(const ExchangeMessage& message, ExchangeReply* reply) const;
  void AnswerParked();
  void Drain();
  void CheckDistance() const;
  void TakeCutPart(const SliceStoreEvents::CutPart& part);
  void ReportShard(uint64_t version, uint32_t checksum, uint64_t lineage);
  void ReportSteps();
  void ReportNorms();

  SyncWorld* const world_;
  const uint32_t index_;
  const uint64_t term_;
  const std::string nonce_;
  bool alive_ = true;
  uint64_t incarnation_ = 0;
  std::unique_ptr<SliceStore> store_;
  bool serving_ = false;
  uint64_t lineage_ = 0;
  std::vector<Parked> parked_;
  std::deque<v1::StepReport> unsent_steps_;
  std::map<uint64_t, std::map<uint32_t, double>>
      norms_;  // waiting for a scale: step -> slice -> squared norm
  std::map<uint64_t, SimulatedDisk::Shard> cuts_;  // being collected
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_PS_H_
