// The bulk path of simulated_network.h.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/call_status.h"
#include "tests/simulation/simulated_network.h"

namespace shoal {
namespace {

// A call from its start until it has ended at the client and at the server.
struct BulkFlight {
  BulkCall* call = nullptr;  // Null: it has ended at the client.
  std::string header;
  std::string payload;
  SimulatedProcess* server = nullptr;
  uint64_t number = 0;  // The call's place among the open calls of the server.
};

class SimulatedServedCall : public ServedCall {
 public:
  SimulatedServedCall(SimulatedNetwork* network, SimulatedProcess* client, SimulatedProcess* server,
                      std::shared_ptr<BulkFlight> flight,
                      std::function<void(const absl::Status&, std::string, std::string)> answer)
      : network_(network),
        client_(client),
        server_(server),
        header_(flight->header),
        bytes_(flight->payload),
        answer_(std::move(answer)) {
    if (!bytes_.empty() && network_->Damages()) {
      bytes_[network_->random().Below(bytes_.size())] ^= 0x10;
    }
    // Fragments have the network's borders.
    const size_t middle = bytes_.empty() ? 0 : network_->random().Below(bytes_.size() + 1);
    payload_.Append(bytes_.data(), middle);
    payload_.Append(bytes_.data() + middle, bytes_.size() - middle);
  }
  ~SimulatedServedCall() override { DropReply(); }

  absl::string_view header() const override { return header_; }
  PayloadReader* payload() override { return &payload_; }
  bool needs_checksums() const override { return true; }

  void Reply(const absl::Status& status) override {
    std::string payload;
    if (status.ok()) {
      server_->acted = network_->fibers()->now();
      for (const PayloadRef& ref : reply_payloads) {
        payload.append(static_cast<const char*>(ref.data), ref.bytes);
      }
      if (!payload.empty() && network_->Damages()) {
        payload[network_->random().Below(payload.size())] ^= 0x04;
      }
    }
    network_->Send(server_, client_,
                   [answer = answer_, status, header = status.ok() ? reply_header : std::string(),
                    payload = std::move(payload)] { answer(status, header, payload); });
    delete this;
  }

 private:
  SimulatedNetwork* const network_;
  SimulatedProcess* const client_;
  SimulatedProcess* const server_;
  const std::string header_;
  std::string bytes_;
  const std::function<void(const absl::Status&, std::string, std::string)> answer_;
  PayloadReader payload_;
};

// Shared by the channel and what is still on its way.
struct ChannelState {
  Mutex mutex;
  CondVar changed;
  int in_flight = 0;  // Calls whose OnReply has not returned.
};

class SimulatedBulkChannel : public BulkChannel {
 public:
  SimulatedBulkChannel(SimulatedNetwork* network, SimulatedProcess* process, std::string address)
      : network_(network),
        process_(process),
        address_(std::move(address)),
        state_(std::make_shared<ChannelState>()) {
    on_death_ = [this] {
      for (const auto& flight : std::vector<std::shared_ptr<BulkFlight>>(flights_)) {
        EndSoon(flight, absl::UnavailableError("the task ends"), absl::ZeroDuration());
      }
    };
    process_->open.insert(&on_death_);
  }

  ~SimulatedBulkChannel() override {
    process_->open.erase(&on_death_);
    for (const auto& flight : std::vector<std::shared_ptr<BulkFlight>>(flights_)) {
      EndSoon(flight, absl::CancelledError("the channel is closing"), absl::ZeroDuration());
    }
    MutexLock lock(&state_->mutex);
    while (state_->in_flight > 0) state_->changed.Wait(&state_->mutex);
  }

  void Start(BulkCall* call) override {
    const auto flight = std::make_shared<BulkFlight>();
    flight->call = call;
    flight->header = call->header;
    for (const PayloadRef& ref : call->payloads) {
      flight->payload.append(static_cast<const char*>(ref.data), ref.bytes);
    }
    in_flight(call) = flight.get();
    flights_.push_back(flight);
    {
      MutexLock lock(&state_->mutex);
      ++state_->in_flight;
    }
    SimulatedProcess* const to = network_->resolve(address_);
    if (!process_->alive || to == nullptr || !to->alive) {
      return EndSoon(flight, absl::UnavailableError("connection refused"), absl::Milliseconds(20));
    }
    const absl::Status wrong = network_->DrawWrong("Exchange");
    if (!wrong.ok() && network_->random().Chance(0.5)) {
      return EndSoon(flight, wrong, network_->Delay());
    }
    EndSoon(flight, absl::DeadlineExceededError("no reply in time"), call->timeout);
    flight->server = to;
    flight->number = network_->NextNumber();
    to->incoming[flight->number] = [this, flight] {
      EndSoon(flight, absl::UnavailableError("connection reset"), absl::ZeroDuration());
    };
    const auto answer = [this, state = state_, flight, wrong](
                            const absl::Status& status, std::string header, std::string payload) {
      if (flight->call == nullptr) return;  // And the channel may be gone.
      End(flight, wrong.ok() ? status : wrong, /*has_mark=*/wrong.ok(), header, payload);
    };
    network_->Send(process_, to, [network = network_, process = process_, to, flight, answer] {
      if (to->bulk == nullptr) return;
      ++to->serving;
      to->bulk->Exchange(new SimulatedServedCall(network, process, to, flight, answer));
      --to->serving;
    });
  }

  void Cancel(BulkCall* call) override {
    for (const auto& flight : flights_) {
      if (flight->call != call) continue;
      return EndSoon(flight, absl::CancelledError("cancelled by the caller"), absl::ZeroDuration());
    }
  }

  bool needs_checksums() const override { return true; }

 private:
  void EndSoon(const std::shared_ptr<BulkFlight>& flight, const absl::Status& status,
               absl::Duration delay) {
    Fibers* const fibers = network_->fibers();
    if (flight->call == nullptr) return;
    fibers->After(delay, [this, fibers, process = process_, flight, status] {
      if (flight->call == nullptr) return;
      fibers->Start(&process->host, [this, flight, status] {
        if (flight->call != nullptr) End(flight, status, /*has_mark=*/false, "", "");
      });
    });
  }

  // Once, on a fiber of the client.
  void End(const std::shared_ptr<BulkFlight>& flight, const absl::Status& answer, bool has_mark,
           const std::string& header, const std::string& payload) {
    const absl::Status status = StatusOfAnswer(answer, has_mark);
    BulkCall* const call = std::exchange(flight->call, nullptr);
    in_flight(call) = nullptr;
    if (flight->server != nullptr) flight->server->incoming.erase(flight->number);
    for (size_t i = 0; i < flights_.size(); ++i) {
      if (flights_[i] != flight) continue;
      flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    const std::shared_ptr<ChannelState> state = state_;
    PayloadReader reader;
    if (status.ok()) reader.Append(payload.data(), payload.size());
    call->is_answered = IsAnsweredByService(answer, has_mark);
    call->OnReply(status, header, &reader);
    MutexLock lock(&state->mutex);
    --state->in_flight;
    state->changed.NotifyAll();
  }

  SimulatedNetwork* const network_;
  SimulatedProcess* const process_;
  const std::string address_;
  const std::shared_ptr<ChannelState> state_;
  std::function<void()> on_death_;
  std::vector<std::shared_ptr<BulkFlight>> flights_;
};

}  // namespace

std::unique_ptr<BulkChannel> NewSimulatedBulkChannel(SimulatedNetwork* network,
                                                     SimulatedProcess* process,
                                                     const std::string& address) {
  return std::make_unique<SimulatedBulkChannel>(network, process, address);
}

}  // namespace shoal
