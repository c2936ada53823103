#ifndef SHOAL_TESTS_SIMULATION_ASYNC_WORKER_H_
#define SHOAL_TESTS_SIMULATION_ASYNC_WORKER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/simulation/async_ps.h"
#include "tests/simulation/async_world.h"
#include "worker/async_step_logic.h"

namespace shoal {

// One life of a worker: an AsyncStepLogic, and what the trainer and the transport around it do.
class AsyncWorker : public std::enable_shared_from_this<AsyncWorker> {
 public:
  AsyncWorker(AsyncWorld* world, uint32_t index, uint64_t incarnation);

  void Start();
  bool is_alive() const { return is_alive_; }
  void Kill() { is_alive_ = false; }
  uint64_t incarnation() const { return incarnation_; }
  std::optional<BatchKey> batch_in_hand() const { return logic_.batch_in_hand(); }

 private:
  // An exchange that is tried until it is answered.
  struct Pending {
    uint64_t ticket = 0;
    uint32_t target_set = 0;
    AsyncExchange exchange;
    bool is_done = false;
  };
  struct Question {
    std::function<void(AsyncChief*)> ask;
    std::function<void()> then;
    bool is_done = false;
  };
  using Values = std::vector<std::vector<float>>;  // by slice

  void After(double seconds, std::function<void()> what);
  void SendAndRepeatLate(const std::function<void()>& deliver);
  void Heartbeat();
  void Pump();
  void Execute(const AsyncAction& action);
  void Call();
  void Compute(const AsyncAction& action);
  void CheckVersions(const AsyncAction& action);
  void PushGroup(const AsyncAction& action, uint32_t group, bool is_first);
  void Evaluate(const AsyncAction& action);
  void Ask(std::shared_ptr<Question> question);
  void ReportBlock(const AsyncAction& action);
  void ReportBad(const AsyncAction& action);
  void StartExchange(std::shared_ptr<Pending> pending);
  void OnReply(Pending* pending, const AsyncExchangeReply& reply);

  AsyncWorld* const world_;
  const uint32_t index_;
  const uint64_t incarnation_;
  bool is_alive_ = true;
  AsyncStepLogic logic_;
  AsyncView view_;
  std::array<Values, 2> parameters_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_ASYNC_WORKER_H_
