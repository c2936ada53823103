#ifndef SHOAL_TESTS_SIMULATION_VIRTUAL_NETWORK_H_
#define SHOAL_TESTS_SIMULATION_VIRTUAL_NETWORK_H_

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "absl/time/time.h"

namespace shoal {

// Virtual time, and messages that are lost, repeated, delayed and so reordered. Everything that
// happens follows from the seed. One thread.
class VirtualNetwork {
 public:
  struct Faults {
    double lose = 0;  // probability per message
    double repeat = 0;
    absl::Time until = absl::InfinitePast();  // after that messages are only delayed
  };

  explicit VirtualNetwork(uint64_t seed) : random_(seed) {}

  absl::Time now() const { return now_; }
  double seconds() const { return absl::ToDoubleSeconds(now_ - absl::UnixEpoch()); }
  void set_faults(const Faults& faults) { faults_ = faults; }
  const Faults& faults() const { return faults_; }

  // For sure, once.
  void After(double seconds, std::function<void()> what);
  // A message: maybe never, maybe twice, after a random time (mean 30 ms).
  void Send(const std::function<void()>& deliver);

  // The next thing happens. False if nothing is left.
  bool Advance();
  uint64_t num_events() const { return num_events_; }

  bool Chance(double probability) { return Uniform(0, 1) < probability; }
  double Uniform(double low, double high) { return low + (high - low) * Fraction(); }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  uint32_t Between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(Below(high - low + 1));
  }

 private:
  struct Event {
    absl::Time when;
    uint64_t number = 0;
    std::function<void()> what;

    friend bool operator<(const Event& a, const Event& b) {  // the earliest is on top of the heap
      return a.when != b.when ? a.when > b.when : a.number > b.number;
    }
  };

  double Fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::mt19937_64 random_;
  Faults faults_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t num_events_ = 0;
  std::vector<Event> events_;  // a heap
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_VIRTUAL_NETWORK_H_
