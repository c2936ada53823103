#include "tests/simulation/simulated_network.h"

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "chief/chief.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
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
  process->chief_service = nullptr;
  process->ps_service = nullptr;
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

class SimulatedControlChannel : public ControlChannel {
 public:
  SimulatedControlChannel(SimulatedNetwork* network, SimulatedProcess* process, std::string address)
      : network_(network), process_(process), address_(std::move(address)) {}

  absl::Status Make(const ControlCall& call) override {
    if (closed_) return absl::CancelledError("the client is closed");
    const std::string method = call.method();
    const std::shared_ptr<google::protobuf::Message> request(call.request->New());
    request->CopyFrom(*call.request);
    if (method == "Heartbeat") {
      process_->connection = std::make_shared<v1::Identity>(
          static_cast<const v1::HeartbeatRequest&>(*request).identity());
    }
    const auto serve = [method, request, path = call.path, serve = call.serve](
                           SimulatedProcess& at, const std::function<bool()>& is_gone,
                           google::protobuf::Message* filled) -> absl::Status {
      const bool is_to_chief = absl::StartsWith(path, "/shoal.v1.ChiefService/");
      grpc::Service* const service = is_to_chief ? at.chief_service : at.ps_service;
      if (service == nullptr) {
        return absl::UnavailableError(
            absl::StrCat("no ", is_to_chief ? "chief" : "ps", " is there yet"));
      }
      // The call sees no connection, but a registration ends with it.
      if (method == "RegisterTask") {
        return at.chief->RegisterFor(is_gone, static_cast<const v1::RegisterTaskRequest&>(*request),
                                     static_cast<v1::RegisterTaskResponse*>(filled));
      }
      const grpc::Status status = serve(service, *request, filled);
      return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
    };
    return network_->Call(process_, address_, method, TimeoutOf(method, call), serve,
                          call.response);
  }
  void Close() override { closed_ = true; }

 private:
  static absl::Duration TimeoutOf(const std::string& method, const ControlCall& call) {
    return method == "ReportNorms" ? call.timeout + absl::Seconds(1) : call.timeout;
  }

  SimulatedNetwork* const network_;
  SimulatedProcess* const process_;
  const std::string address_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<ChiefClient> NewSimulatedChiefClient(SimulatedNetwork* network,
                                                     SimulatedProcess* process) {
  return std::make_unique<ChiefClient>(
      std::make_unique<SimulatedControlChannel>(network, process, "chief"));
}

std::unique_ptr<ParameterClient> NewSimulatedParameterClient(SimulatedNetwork* network,
                                                             SimulatedProcess* process,
                                                             const std::string& address) {
  return std::make_unique<ParameterClient>(
      std::make_unique<SimulatedControlChannel>(network, process, address));
}

}  // namespace shoal
