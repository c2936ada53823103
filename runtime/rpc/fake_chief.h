// (testonly) A chief without a run. It returns the answers that a test has set and records its
// calls.
#ifndef SHOAL_RUNTIME_RPC_FAKE_CHIEF_H_
#define SHOAL_RUNTIME_RPC_FAKE_CHIEF_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "base/mutex.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/in_process_control_channel.h"

namespace shoal {

// Thread-safe. Incarnations are 1, 2, ... per nonce.
class FakeChief {
 public:
  virtual ~FakeChief() = default;

  // A client whose calls reach this chief; its thread is the caller's.
  ChiefClient* client() { return &client_; }

  // Sets the state that heartbeats return.
  void SetState(const v1::RunState& state) {
    MutexLock lock(&mutex_);
    state_ = state;
    changed_.NotifyAll();
  }
  // Makes all calls fail with `status`; OK makes them succeed again.
  void SetFailure(const absl::Status& status) {
    MutexLock lock(&mutex_);
    failure_ = status;
    changed_.NotifyAll();
  }

  // Waits until `done` returns true; calls it with the lock held.
  void WaitUntil(const std::function<bool()>& done) {
    MutexLock lock(&mutex_);
    while (!done()) changed_.Wait(&mutex_);
  }
  int NumCalls() {
    MutexLock lock(&mutex_);
    return calls;
  }
  // Read these inside WaitUntil's `done`, or while no call is under way.
  int calls = 0;
  std::vector<v1::RegisterTaskRequest> registrations;
  v1::HeartbeatRequest last_heartbeat;
  std::map<uint64_t, v1::StepReport> steps;
  std::vector<v1::ReportShardRequest> shards;
  std::atomic<double> norm_scale{1};
  std::map<uint64_t, std::map<uint32_t, double>> norms;  // Keyed by step and slice.
  std::atomic<size_t> slices_with_norm{0};  // The number of slices that completes a step's norm.

  int disconnects = 0;
  std::atomic<bool> places_are_taken{false};  // Registrations wait until their callers are gone.
  int waiting_registrations = 0;

  virtual void OnDisconnect(const v1::Identity& /*member*/) {
    MutexLock lock(&mutex_);
    ++disconnects;
    changed_.NotifyAll();
  }
  virtual absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                                    v1::RegisterTaskResponse* response) {
    return Answer([&] {
      registrations.push_back(request);
      response->set_run_id("0123456789abcdef0123456789abcdef");
      response->set_term(1);
      auto& incarnation = incarnations_[request.nonce()];
      if (incarnation == 0) incarnation = incarnations_.size();
      response->set_incarnation(incarnation);
    });
  }
  virtual absl::Status RegisterFor(const std::function<bool()>& is_gone,
                                   const v1::RegisterTaskRequest& request,
                                   v1::RegisterTaskResponse* response) {
    {
      MutexLock lock(&mutex_);
      ++waiting_registrations;
      changed_.NotifyAll();
      while (places_are_taken && !is_gone()) changed_.WaitFor(&mutex_, absl::Milliseconds(5));
      --waiting_registrations;
      changed_.NotifyAll();
    }
    return RegisterTask(request, response);
  }
  virtual absl::Status Heartbeat(const v1::HeartbeatRequest& request,
                                 v1::HeartbeatResponse* response) {
    return Answer([&] {
      mutex_.AssertHeld();
      last_heartbeat = request;
      changed_.NotifyAll();
      const absl::Time give_up = absl::Now() + absl::Milliseconds(request.wait_milliseconds());
      while (failure_.ok() && state_.number() <= request.known_state() && absl::Now() < give_up) {
        changed_.WaitFor(&mutex_, give_up - absl::Now());
      }
      if (state_.number() > request.known_state()) *response->mutable_state() = state_;
    });
  }
  virtual absl::Status ReportSteps(const v1::ReportStepsRequest& request,
                                   v1::ReportStepsResponse* response) {
    return Answer([&] {
      for (const auto& step : request.steps()) {
        steps[step.step()] = step;
        response->set_newest_step(step.step());
      }
    });
  }
  virtual absl::Status ReportShard(const v1::ReportShardRequest& request,
                                   v1::ReportShardResponse*) {
    return Answer([&] { shards.push_back(request); });
  }
  virtual absl::Status ReportNorms(const v1::ReportNormsRequest& request,
                                   v1::ReportNormsResponse* response) {
    return Answer([&] {
      auto& step = norms[request.step()];
      for (int i = 0; i < request.slices_size(); ++i) {
        step[request.slices(i)] = request.squared_norms(i);
      }
      response->set_ready(step.size() >= slices_with_norm);
      response->set_scale(norm_scale);
    });
  }
  virtual absl::Status ReportEvaluation(const v1::ReportEvaluationRequest&,
                                        v1::ReportEvaluationResponse*) {
    return Answer([] {});
  }
  virtual absl::Status ReportBadBatch(const v1::ReportBadBatchRequest&,
                                      v1::ReportBadBatchResponse*) {
    return Answer([] {});
  }
  virtual absl::Status LeaseBatches(const v1::LeaseBatchesRequest&, v1::LeaseBatchesResponse*) {
    return Answer([] {});
  }
  virtual absl::Status RequestStop(const v1::RequestStopRequest&, v1::RequestStopResponse*) {
    return Answer([] {});
  }
  virtual absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                                    v1::GetRunStatusResponse* response) {
    return Answer([&] { *response->mutable_state() = state_; });
  }

 private:
  absl::Status Answer(const std::function<void()>& fill) {
    MutexLock lock(&mutex_);
    ++calls;
    if (failure_.ok()) fill();
    changed_.NotifyAll();
    return failure_;
  }

  Mutex mutex_;
  CondVar changed_;
  v1::RunState state_;
  absl::Status failure_;
  std::map<std::string, uint64_t> incarnations_;
  GrpcChiefService<FakeChief> service_{this};
  ChiefClient client_{NewInProcessControlChannel(&service_)};
};

// Returns a client that owns its chief.
inline std::unique_ptr<ChiefClient> NewClient(std::unique_ptr<FakeChief> chief) {
  class OwningChannel : public ControlChannel {
   public:
    explicit OwningChannel(std::unique_ptr<FakeChief> chief)
        : chief_(std::move(chief)), service_(chief_.get()) {}
    absl::Status Make(const ControlCall& call) override {
      return NewInProcessControlChannel(&service_)->Make(call);
    }

   private:
    const std::unique_ptr<FakeChief> chief_;
    GrpcChiefService<FakeChief> service_;
  };
  return std::make_unique<ChiefClient>(std::make_unique<OwningChannel>(std::move(chief)));
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_FAKE_CHIEF_H_
