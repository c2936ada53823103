// Runs programs with threads in virtual time on one real thread, in an order drawn from a seed.
//
// Linking this file replaces std::thread, the waits under CondVar (base/mutex.h) and the standard
// library's steady clock in the whole program. While a Fibers object exists, every std::thread is a
// fiber, every wait switches to another fiber, and time advances only when no fiber can run. So the
// simulation drives the production classes, including their threads. A thread must not hold one
// mutex while it waits for something else than that mutex's condition variable.
#ifndef SHOAL_TESTS_SIMULATION_FIBERS_H_
#define SHOAL_TESTS_SIMULATION_FIBERS_H_

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"

#include "base/clock.h"

namespace shoal {

class Fiber;

// A group of fibers that is paused and resumed together, like a process on a machine of its own.
struct FiberHost {
  std::string name;
  bool paused = false;
  std::vector<Fiber*> held = {};  // Fibers that are ready but not run because the host is paused.
};

// Random numbers from a seed; the same on every machine.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  uint64_t Below(uint64_t n) { return Next() % n; }
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  double Uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(Next() >> 11) * 0x1p-53);
  }
  bool Chance(double p) { return Uniform(0, 1) < p; }

 private:
  uint64_t state_;
};

class Fibers {
 public:
  static constexpr absl::Time kStart = absl::FromUnixSeconds(1600000000);

  explicit Fibers(uint64_t seed);
  // All fibers must have ended.
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Returns the existing Fibers object; null means that threads are real threads.
  static Fibers* current();

  // Starts a fiber of the host. Threads that a fiber starts belong to the same host.
  void Start(FiberHost* host, std::function<void()> body);
  // Runs `event` after `delay`, outside all fibers. The event must not wait.
  void After(absl::Duration delay, std::function<void()> event);
  // Blocks the calling fiber for `duration`. Time passes for paused hosts too.
  void Sleep(absl::Duration duration);

  void Pause(FiberHost* host) { host->paused = true; }
  void Resume(FiberHost* host);

  // Runs fibers and events until `done()` is true (checked between two turns), virtual time reaches
  // `end`, or nothing is left to run. Returns false if `done()` never was true.
  bool Run(absl::Time end, const std::function<bool()>& done);

  absl::Time now() const { return now_; }
  // Virtual seconds since the start of the simulation.
  double seconds() const { return absl::ToDoubleSeconds(now_ - kStart); }
  const Clock* clock() const { return clock_.get(); }
  uint64_t num_turns() const { return turns_; }
  size_t num_fibers() const { return fibers_.size(); }
  // Lists the hosts of the fibers that have not ended.
  std::string Describe() const;

  // The functions below serve the replacements of the library's functions. `channel` is the
  // condition variable's address. Wait releases `mutex` (may be null) while it waits and returns
  // false if the deadline came first.
  bool Wait(const void* channel, pthread_mutex_t* mutex, absl::Time deadline);
  void Notify(const void* channel, bool all);
  bool in_fiber() const { return running_ != nullptr; }
  uint64_t StartThread(std::function<void()> body);
  void Join(uint64_t thread);

 private:
  struct Timer {
    absl::Time time;
    uint64_t number;  // Timers with equal times run in the order in which they were set.
    uint64_t fiber;   // The fiber to wake; 0: run `event` instead.
    uint64_t wait;    // The number of the fiber's wait that this timer ends.
    std::function<void()> event;
  };
  struct Later {
    bool operator()(const Timer* a, const Timer* b) const {
      return a->time != b->time ? a->time > b->time : a->number > b->number;
    }
  };

  Fiber* Make(FiberHost* host, std::function<void()> body);
  void SetReady(Fiber* fiber);
  void SwitchTo(Fiber* fiber);
  void SwitchToScheduler();
  void AddTimer(absl::Time time, const Fiber* fiber, std::function<void()> event);
  void Free(Fiber* fiber);
  bool RunTimer(absl::Time end);
  static void Enter();

  SeededRandom random_;
  absl::Time now_ = kStart;
  std::unique_ptr<Clock> clock_;
  uint64_t turns_ = 0;
  uint64_t turns_now_ = 0;  // Turns since virtual time last advanced.
  uint64_t next_number_ = 1;
  std::vector<Fiber*> ready_;
  std::priority_queue<Timer*, std::vector<Timer*>, Later> timers_;
  std::unordered_map<const void*, std::vector<Fiber*>> waiting_;
  std::unordered_map<uint64_t, Fiber*> fibers_;  // Fibers that have not ended, by number.
  Fiber* running_ = nullptr;
  std::unique_ptr<Fiber> scheduler_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_FIBERS_H_
