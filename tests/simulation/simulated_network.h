// The network between simulated processes: control calls and bulk calls that are delayed, lost,
// repeated, cut off or answered wrongly.
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
#include "runtime/cluster/batch_key.h"
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

// One life of a task. Kept until the end of the simulation, since messages name it.
struct SimulatedProcess {
  FiberHost host;
  std::string task;     // "ps/0"
  std::string address;  // Unlike that of every other life.
  bool alive = true;    // Else all it does is without effect.
  // What it serves; null: nothing, or not any more.
  ChiefClient* chief = nullptr;
  ParameterClient* parameters = nullptr;
  BulkService* bulk = nullptr;
  int serving = 0;                        // Calls that are inside the above.
  std::set<std::function<void()>*> open;  // End what it waits for, when it dies.
  // End what others wait for from it, when its connections break. By number.
  std::map<uint64_t, std::function<void()>> incoming;
  // Who it is for the chief, as its newest heartbeat said; null: it has sent none.
  std::shared_ptr<v1::Identity> connection;
  BatchKey batch;                           // That it computes, or did last.
  absl::Time heard = absl::InfinitePast();  // By the chief, last.
  absl::Time acted = absl::InfinitePast();  // When it last answered an exchange well.
  // When the chief that it is registered with was first seen without it.
  absl::Time lease_ended = absl::InfiniteFuture();
};

// A wrong answer that something between the tasks makes up.
struct WrongAnswers {
  double rate = 0;
  absl::Status status;
  std::string method;  // Of control calls, or "Exchange"; empty: all.
  absl::Time until = absl::InfinitePast();
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(Fibers* fibers, uint64_t seed) : fibers_(fibers), random_(seed) {}

  Fibers* fibers() const { return fibers_; }

  // What is reached at an address; null: nobody is there.
  std::function<SimulatedProcess*(const std::string& address)> resolve;

  // Until then messages are lost or delivered twice at these rates.
  double loss = 0;
  double repeats = 0;
  double damage = 0;  // Of bulk payloads.
  absl::Time faults_end = absl::InfinitePast();
  WrongAnswers wrong;

  // Nothing that `from` sends arrives at `to` until then. Tasks, not lives.
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

  // What the two calls below are made of. Runs `deliver` on a fiber of `to`, maybe never, maybe
  // twice.
  void Send(SimulatedProcess* from, SimulatedProcess* to, std::function<void()> deliver);
  // A delay of the network.
  absl::Duration Delay();
  // The answer that something makes up instead of the service's, if any.
  absl::Status DrawWrong(const std::string& method);
  bool Damages();
  uint64_t NextNumber() { return ++next_number_; }
  SeededRandom& random() { return random_; }

  // A control call from a fiber of `from`. `serve` runs at the receiver, on a copy of the response.
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

// What a process has open ends with errors; from here on it reaches nobody. `is_noticed`: those
// who wait for its answers hear at once that there will be none.
void Kill(SimulatedProcess* process, bool is_noticed);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_NETWORK_H_
