#include "tests/simulation/simulated_network.h"

#include <google/protobuf/message.h>

#include <utility>

#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/rpc/control_timeout.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

// The state of one control call.
struct OpenCall {
  Mutex mutex;
  CondVar changed;
  bool done = false;
  absl::Status status;
  bool has_mark = false;  // The service itself has answered.
  std::unique_ptr<google::protobuf::Message> response;

  void End(const absl::Status& result, bool is_marked,
           std::unique_ptr<google::protobuf::Message> answer) {
    MutexLock lock(&mutex);
    if (done) return;
    done = true;
    status = result;
    has_mark = is_marked;
    response = std::move(answer);
    changed.NotifyAll();
  }
};

}  // namespace

void Kill(SimulatedProcess* process, bool is_noticed) {
  process->alive = false;
  process->chief = nullptr;
  process->parameters = nullptr;
  process->bulk = nullptr;
  for (std::function<void()>* end : std::set<std::function<void()>*>(process->open)) (*end)();
  const std::map<uint64_t, std::function<void()>> incoming = std::move(process->incoming);
  process->incoming.clear();
  for (const auto& [number, end] : incoming) {
    if (is_noticed) end();
  }
}

void SimulatedNetwork::Cut(const std::string& from, const std::string& to, absl::Time until) {
  absl::Time& end = cuts_[{from, to}];
  end = std::max(end, until);
}

bool SimulatedNetwork::IsCut(const std::string& from, const std::string& to) const {
  const auto it = cuts_.find({from, to});
  return it != cuts_.end() && fibers_->now() < it->second;
}

absl::Duration SimulatedNetwork::Delay() {
  // Mostly fast, sometimes much slower, so that messages overtake each other.
  return absl::Seconds(random_.Chance(0.9) ? random_.Uniform(0.0005, 0.01)
                                           : random_.Uniform(0.01, 0.3));
}

absl::Status SimulatedNetwork::DrawWrong(const std::string& method) {
  if (fibers_->now() >= wrong.until || (!wrong.method.empty() && wrong.method != method) ||
      !random_.Chance(wrong.rate)) {
    return absl::OkStatus();
  }
  ++counts.wrong;
  return wrong.status;
}

bool SimulatedNetwork::Damages() {
  if (fibers_->now() >= faults_end || !random_.Chance(damage)) return false;
  ++counts.damaged;
  return true;
}

void SimulatedNetwork::Send(SimulatedProcess* from, SimulatedProcess* to,
                            std::function<void()> deliver) {
  if (!from->alive) return;
  const bool faulty = fibers_->now() < faults_end;
  ++counts.messages;
  if (faulty && random_.Chance(loss)) {
    ++counts.lost;
    return;
  }
  const int copies = faulty && random_.Chance(repeats) ? 2 : 1;
  if (copies == 2) ++counts.repeated;
  for (int i = 0; i < copies; ++i) {
    // Some arrive when nobody waits for them any more.
    const bool is_late = faulty && random_.Chance(0.05);
    const absl::Duration delay = Delay() + absl::Seconds(is_late ? random_.Uniform(0, 12) : 0);
    fibers_->After(delay, [this, from, to, deliver] {
      // A message arrives even if its sender has died meanwhile, but not through a cut.
      if (IsCut(from->task, to->task)) {
        ++counts.cut;
        return;
      }
      if (to->alive) fibers_->Start(&to->host, deliver);
    });
  }
}

absl::Status SimulatedNetwork::Call(SimulatedProcess* from, const std::string& address,
                                    const std::string& method, absl::Duration timeout,
                                    const Serve& serve, google::protobuf::Message* response) {
  SimulatedProcess* const to = resolve(address);
  if (!from->alive || to == nullptr || !to->alive) {
    fibers_->Sleep(absl::Milliseconds(20));
    return absl::UnavailableError("connection refused");
  }
  const auto call = std::make_shared<OpenCall>();
  // Before the service sees the call, or instead of its answer.
  const absl::Status wrong = DrawWrong(method);
  const bool is_seen = wrong.ok() || random_.Chance(0.5);
  const std::shared_ptr<google::protobuf::Message> prototype(response->New());
  const auto answer = [this, from, to, call, wrong](const absl::Status& status,
                                                    std::shared_ptr<google::protobuf::Message> m) {
    Send(to, from, [call, status = wrong.ok() ? status : wrong, has_mark = wrong.ok(), m] {
      std::unique_ptr<google::protobuf::Message> copy(m->New());
      copy->CopyFrom(*m);
      call->End(status, has_mark, std::move(copy));
    });
  };
  Send(from, to, [to, call, serve, answer, is_seen, prototype] {
    const std::shared_ptr<google::protobuf::Message> filled(prototype->New());
    absl::Status status = absl::UnavailableError("nobody serves there");
    if (is_seen) {
      ++to->serving;
      status = serve(
          *to, [call] { return call->done; }, filled.get());
      --to->serving;
    }
    answer(status, filled);
  });
  std::function<void()> end = [call] {
    call->End(absl::CancelledError("the task ends"), /*is_marked=*/false, nullptr);
  };
  from->open.insert(&end);
  const uint64_t number = NextNumber();
  to->incoming[number] = [call] {
    call->End(absl::UnavailableError("connection reset"), /*is_marked=*/false, nullptr);
  };
  const absl::Time deadline = fibers_->now() + timeout;
  absl::Status status;
  {
    MutexLock lock(&call->mutex);
    while (!call->done && fibers_->clock()->WaitUntil(deadline, &call->mutex, &call->changed)) {
    }
    if (!call->done) {
      call->done = true;
      call->status = absl::DeadlineExceededError("no answer in time");
    }
    status = StatusOfAnswer(call->status, call->has_mark);
    if (status.ok()) response->CopyFrom(*call->response);
  }
  from->open.erase(&end);
  to->incoming.erase(number);
  return status;
}

namespace {

class SimulatedChiefClient : public ChiefClient {
 public:
  SimulatedChiefClient(SimulatedNetwork* network, SimulatedProcess* process)
      : network_(network), process_(process) {}

  absl::Status RegisterTask(const v1::RegisterTaskRequest& request,
                            v1::RegisterTaskResponse* response) override {
    return network_->Call(
        process_, "chief", "RegisterTask", kControlTimeout,
        [request](SimulatedProcess& at, const std::function<bool()>& is_gone,
                  google::protobuf::Message* filled) -> absl::Status {
          if (at.chief == nullptr) return absl::UnavailableError("no chief is there yet");
          return at.chief->RegisterFor(is_gone, request,
                                       static_cast<v1::RegisterTaskResponse*>(filled));
        },
        response);
  }
  absl::Status Heartbeat(const v1::HeartbeatRequest& request,
                         v1::HeartbeatResponse* response) override {
    process_->connection = std::make_shared<v1::Identity>(request.identity());
    return Call("Heartbeat", &ChiefClient::Heartbeat, request, response,
                absl::Milliseconds(request.wait_milliseconds()));
  }
  absl::Status ReportSteps(const v1::ReportStepsRequest& request,
                           v1::ReportStepsResponse* response) override {
    return Call("ReportSteps", &ChiefClient::ReportSteps, request, response);
  }
  absl::Status ReportShard(const v1::ReportShardRequest& request,
                           v1::ReportShardResponse* response) override {
    return Call("ReportShard", &ChiefClient::ReportShard, request, response);
  }
  absl::Status ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                v1::ReportEvaluationResponse* response) override {
    return Call("ReportEvaluation", &ChiefClient::ReportEvaluation, request, response);
  }
  absl::Status ReportBadBatch(const v1::ReportBadBatchRequest& request,
                              v1::ReportBadBatchResponse* response) override {
    return Call("ReportBadBatch", &ChiefClient::ReportBadBatch, request, response);
  }
  absl::Status LeaseBatches(const v1::LeaseBatchesRequest& request,
                            v1::LeaseBatchesResponse* response) override {
    return Call("LeaseBatches", &ChiefClient::LeaseBatches, request, response);
  }
  absl::Status ReportNorms(const v1::ReportNormsRequest& request,
                           v1::ReportNormsResponse* response) override {
    return Call("ReportNorms", &ChiefClient::ReportNorms, request, response, absl::Seconds(1));
  }
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse* response) override {
    return Call("RequestStop", &ChiefClient::RequestStop, request, response);
  }
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& request,
                            v1::GetRunStatusResponse* response) override {
    return Call("GetRunStatus", &ChiefClient::GetRunStatus, request, response);
  }

 private:
  template <typename Request, typename Response>
  absl::Status Call(const char* name,
                    absl::Status (ChiefClient::*method)(const Request&, Response*),
                    const Request& request, Response* response,
                    absl::Duration wait = absl::ZeroDuration()) {
    return network_->Call(
        process_, "chief", name, kControlTimeout + wait,
        [method, request](SimulatedProcess& at, const std::function<bool()>& /*is_gone*/,
                          google::protobuf::Message* filled) -> absl::Status {
          if (at.chief == nullptr) return absl::UnavailableError("no chief is there yet");
          return (at.chief->*method)(request, static_cast<Response*>(filled));
        },
        response);
  }

  SimulatedNetwork* const network_;
  SimulatedProcess* const process_;
};

class SimulatedParameterClient : public ParameterClient {
 public:
  SimulatedParameterClient(SimulatedNetwork* network, SimulatedProcess* process,
                           std::string address)
      : network_(network), process_(process), address_(std::move(address)) {}

  absl::Status LoadSlices(const v1::LoadSlicesRequest& request,
                          v1::LoadSlicesResponse* response) override {
    return Call("LoadSlices", &ParameterClient::LoadSlices, request, response, kLoadTimeout);
  }
  absl::Status WithholdBatch(const v1::WithholdBatchRequest& request,
                             v1::WithholdBatchResponse* response) override {
    return Call("WithholdBatch", &ParameterClient::WithholdBatch, request, response);
  }
  absl::Status DecideBatch(const v1::DecideBatchRequest& request,
                           v1::DecideBatchResponse* response) override {
    return Call("DecideBatch", &ParameterClient::DecideBatch, request, response);
  }
  absl::Status RequestCut(const v1::RequestCutRequest& request,
                          v1::RequestCutResponse* response) override {
    return Call("RequestCut", &ParameterClient::RequestCut, request, response);
  }
  absl::Status GetApplied(const v1::GetAppliedRequest& request,
                          v1::GetAppliedResponse* response) override {
    return Call("GetApplied", &ParameterClient::GetApplied, request, response);
  }
  absl::Status Finish(const v1::FinishRequest& request, v1::FinishResponse* response) override {
    return Call("Finish", &ParameterClient::Finish, request, response);
  }
  void Close() override { closed_ = true; }

 private:
  template <typename Request, typename Response>
  absl::Status Call(const char* name,
                    absl::Status (ParameterClient::*method)(const Request&, Response*),
                    const Request& request, Response* response,
                    absl::Duration timeout = kControlTimeout) {
    if (closed_) return absl::CancelledError("the client is closed");
    return network_->Call(
        process_, address_, name, timeout,
        [method, request](SimulatedProcess& at, const std::function<bool()>& /*is_gone*/,
                          google::protobuf::Message* filled) -> absl::Status {
          if (at.parameters == nullptr) return absl::UnavailableError("no ps is there yet");
          return (at.parameters->*method)(request, static_cast<Response*>(filled));
        },
        response);
  }

  SimulatedNetwork* const network_;
  SimulatedProcess* const process_;
  const std::string address_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<ChiefClient> NewSimulatedChiefClient(SimulatedNetwork* network,
                                                     SimulatedProcess* process) {
  return std::make_unique<SimulatedChiefClient>(network, process);
}

std::unique_ptr<ParameterClient> NewSimulatedParameterClient(SimulatedNetwork* network,
                                                             SimulatedProcess* process,
                                                             const std::string& address) {
  return std::make_unique<SimulatedParameterClient>(network, process, address);
}

}  // namespace shoal
