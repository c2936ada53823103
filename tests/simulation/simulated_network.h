// The network between simulated processes. Control calls and bulk calls are delayed, and may be
// lost, repeated, cut off or answered with a wrong status.
#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_NETWORK_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "proto/v1/identity.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/transport/bulk.h"
#include "tests/simulation/fibers.h"

namespace google {
namespace protobuf {
class Message;
}
}  // namespace google

namespace shoal {

class Chief;

// One life of a task. Kept until the end of the simulation, since messages name it.
struct SimulatedProcess {
  FiberHost host;
  std::string task;     // "ps/0"
  std::string address;  // Unique among all lives.
  bool alive = true;    // If false, nothing that the process does has an effect.
  // The services of this process; null while it does not serve.
  Chief* chief = nullptr;
  grpc::Service* chief_service = nullptr;  // The service of `chief`.
  grpc::Service* ps_service = nullptr;
  BulkService* bulk = nullptr;
  int serving = 0;                        // The number of calls inside those services.
  std::set<std::function<void()>*> open;  // Callbacks that end its own open calls when it dies.
  // Callbacks, by number, that end the calls of others to it when its connections break.
  std::map<uint64_t, std::function<void()>> incoming;
  // The identity in its newest heartbeat; null before the first one.
  std::shared_ptr<v1::Identity> connection;
  BatchKey batch;  // The batch that it computes, or computed last.
  // When the chief last received a message from it.
  absl::Time last_contact = absl::InfinitePast();
  absl::Time acted = absl::InfinitePast();  // When it last answered an exchange with OK.
  // When the chief was first seen to have removed this process from its members.
  absl::Time lease_ended = absl::InfiniteFuture();
};

// A status that a proxy between the tasks returns in place of the service. Callers receive it
// through call_status.h, as in production.
struct WrongAnswers {
  double rate = 0;
  absl::Status status;
  std::string method;  // The name of a control call, or "Exchange"; empty means all.
  absl::Time until = absl::InfinitePast();
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(Fibers* fibers, uint64_t seed) : fibers_(fibers), random_(seed) {}

  Fibers* fibers() const { return fibers_; }

  // Finds the process that listens at an address; null if there is none.
  std::function<SimulatedProcess*(const std::string& address)> resolve;

  // The shares of messages that are lost and that are delivered twice, until `faults_end`.
  double loss = 0;
  double repeats = 0;
  double damage = 0;  // The share of bulk payloads that is damaged.
  absl::Time faults_end = absl::InfinitePast();
  WrongAnswers wrong;

  // Drops everything that task `from` sends to task `to` until the given time. Both are names of
  // tasks, so restarts do not matter.
  void Cut(const std::string& from, const std::string& to, absl::Time until);

  struct Counts {
    uint64_t messages = 0;
    uint64_t lost = 0;
    uint64_t repeated = 0;
    uint64_t cut = 0;
    uint64_t wrong = 0;
    uint64_t damaged = 0;
  };
  Counts counts;

  // Sends one message: runs `deliver` on a fiber of `to`, possibly never and possibly twice.
  // Control calls and bulk calls are built from it.
  void Send(SimulatedProcess* from, SimulatedProcess* to, std::function<void()> deliver);
  // Draws a network delay.
  absl::Duration Delay();
  // Draws the status of a wrong answer, without the mark of a service; OK if the call reaches the
  // service.
  absl::Status DrawWrong(const std::string& method);
  bool Damages();
  uint64_t NextNumber() { return ++next_number_; }
  SeededRandom& random() { return random_; }

  // Makes a control call from a fiber of `from`. `serve` runs at the receiver, on a copy of the
  // response.
  using Serve =
      std::function<absl::Status(SimulatedProcess& at, const std::function<bool()>& is_gone,
                                 google::protobuf::Message* response)>;
  absl::Status Call(SimulatedProcess* from, const std::string& address, const std::string& method,
                    absl::Duration timeout, const Serve& serve,
                    google::protobuf::Message* response);

 private:
  bool IsCut(const std::string& from, const std::string& to) const;

  Fibers* const fibers_;
  SeededRandom random_;
  uint64_t next_number_ = 0;
  std::map<std::pair<std::string, std::string>, absl::Time> cuts_;
};

std::unique_ptr<ChiefClient> NewSimulatedChiefClient(SimulatedNetwork* network,
                                                     SimulatedProcess* process);
std::unique_ptr<ParameterClient> NewSimulatedParameterClient(SimulatedNetwork* network,
                                                             SimulatedProcess* process,
                                                             const std::string& address);
std::unique_ptr<BulkChannel> NewSimulatedBulkChannel(SimulatedNetwork* network,
                                                     SimulatedProcess* process,
                                                     const std::string& address);

// Ends the open calls of a process with errors and disconnects it. With `is_noticed`, calls of
// others to it fail at once; otherwise they run into their deadlines.
void Kill(SimulatedProcess* process, bool is_noticed);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_NETWORK_H_
