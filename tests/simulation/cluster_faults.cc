// ClusterSimulation injects the faults of its plan here.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/mutex.h"
#include "proto/v1/bulk.pb.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/transport/bulk.h"
#include "tests/simulation/cluster_simulation.h"

namespace shoal {
namespace {

constexpr uint64_t kForgedTerms = 1000;  // A forged term exceeds the true one by this.

// Makes a call, waits for its answer and ignores it.
class ForgedCall : public BulkCall {
 public:
  void OnReply(const absl::Status& /*status*/, absl::string_view /*header*/,
               PayloadReader* /*payload*/) override {
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

void ClusterSimulation::ForgeTerm(const std::string& task) {
  Life* const life = current_[task];
  SimulatedProcess* const process = &life->process;
  if (!process->alive || process->connection == nullptr) return;
  v1::Identity forged = *process->connection;
  forged.set_term(forged.term() + kForgedTerms);
  fibers_.Start(&process->host, [this, process, forged] {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = forged;
    v1::HeartbeatResponse response;
    const auto serve = [request](SimulatedProcess& at, const std::function<bool()>& /*is_gone*/,
                                 google::protobuf::Message* filled) -> absl::Status {
      if (at.chief == nullptr) return absl::UnavailableError("no chief is there yet");
      return at.chief->Heartbeat(request, static_cast<v1::HeartbeatResponse*>(filled));
    };
    network_.Call(process, "chief", "Heartbeat", absl::Seconds(5), serve, &response).IgnoreError();
  });
  for (const auto& [name, other] : current_) {
    const v1::Identity* ps = other->process.connection.get();
    if (!absl::StartsWith(name, "ps") || ps == nullptr) continue;
    v1::ExchangeRequest request;
    *request.mutable_identity() = forged;
    request.set_receiver_incarnation(ps->incarnation());
    request.mutable_identity()->set_lineage(ps->lineage());
    request.set_versions_only(true);
    fibers_.Start(&process->host, [this, process, request, address = other->process.address] {
      const auto channel = NewSimulatedBulkChannel(&network_, process, address);
      ForgedCall call;
      call.header = request.SerializeAsString();
      channel->Start(&call);
      call.Wait();
    });
  }
}

void ClusterSimulation::PauseTask(const std::string& task, double seconds) {
  Life* const life = current_[task];
  if (life == nullptr || !life->process.alive || life->process.host.paused) return;
  fibers_.Pause(&life->process.host);
  fibers_.After(absl::Seconds(seconds), [this, life] {
    Note(absl::StrCat(life->process.address, " resumes"));
    fibers_.Resume(&life->process.host);
    AddTrouble();
  });
}

void ClusterSimulation::Inject(const PlannedFault& fault) {
  if (over_) return;
  ++counts_.faults[fault.kind];
  Note(fault.ToString());
  AddTrouble();
  if (plan_.faults.size() == 1) {
    fault_time_ = fibers_.seconds();
    wanted_step_ = highest_step_ + 1;
  }
  const absl::Time until = fibers_.now() + absl::Seconds(fault.seconds);
  switch (fault.kind) {
    case PlannedFault::kKillWorker:
    case PlannedFault::kKillPs:
    case PlannedFault::kKillChief:
      return KillTask(fault.task);
    case PlannedFault::kDamagedCheckpoint: {
      // All tasks are down, so that none uses the checkpoint.
      const std::string path = disks_.DamageNewestCheckpoint("/run/checkpoints", &random_);
      if (!path.empty()) {
        Note(absl::StrCat("damages ", path));
        HistoryEvent event;
        event.kind = HistoryEvent::kDamaged;
        Add(event);
      }
    }
      ABSL_FALLTHROUGH_INTENDED;
    case PlannedFault::kKillAll: {
      std::vector<std::string> tasks;
      for (const auto& [task, life] : current_) tasks.push_back(task);
      for (const std::string& task : tasks) KillTask(task);
      return;
    }
    case PlannedFault::kPauseWorker:
    case PlannedFault::kPausePs:
    case PlannedFault::kPauseChief:
      return PauseTask(fault.task, fault.seconds);
    case PlannedFault::kPartition:
      for (const auto& [a, life] : current_) {
        for (const auto& [b, other] : current_) {
          const bool in_a = std::count(fault.group.begin(), fault.group.end(), a) > 0;
          const bool in_b = std::count(fault.group.begin(), fault.group.end(), b) > 0;
          if (in_a != in_b) network_.Cut(a, b, until);
        }
      }
      return;
    case PlannedFault::kCutBothWays:
      network_.Cut(fault.other, fault.task, until);
      ABSL_FALLTHROUGH_INTENDED;
    case PlannedFault::kCutOneWay:
      return network_.Cut(fault.task, fault.other, until);
    case PlannedFault::kLoss:
      network_.loss = fault.rate;
      network_.repeats = 0.1;
      network_.damage = 0.1;
      network_.faults_end = std::max(network_.faults_end, until);
      return;
    case PlannedFault::kWrongAnswers:
      network_.wrong = {fault.rate, fault.status, fault.method, until};
      return;
    case PlannedFault::kSlowDisk:
      disks_.faults[fault.task] = {absl::Seconds(fault.rate), absl::OkStatus(), until};
      return;
    case PlannedFault::kFailingDisk:
      disks_.faults[fault.task] = {absl::ZeroDuration(), fault.status, until,
                                   std::max<uint64_t>(1, static_cast<uint64_t>(fault.rate))};
      return;
    case PlannedFault::kStop:
    case PlannedFault::kCheckpoint: {
      v1::RequestStopRequest request;
      request.set_stop(fault.kind == PlannedFault::kStop);
      return RequestStop(request);
    }
    case PlannedFault::kForgedTerm:
      return ForgeTerm(fault.task);
    case PlannedFault::kNumKinds:
      return;
  }
}

}  // namespace shoal
