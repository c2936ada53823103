// Runs programs with threads in virtual time on one real thread, in an order drawn from a seed.
//
// Linking this file replaces std::thread, the waits below base/mutex.h's CondVar and the library's
// steady clock in the whole program: while a Fibers object exists, every std::thread is a fiber,
// every wait gives the turn to another fiber, and time passes only when no fiber can run. So the
// simulation drives the very classes that run in production, their threads included. A mutex must
// not be held across a wait for something else.
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

// What stops and goes on as a whole: a process on a machine of its own.
struct FiberHost {
  std::string name;
  bool paused = false;
  std::vector<Fiber*> held = {};  // Fibers that could run if the host were not paused.
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

  // The one that exists now; null: threads are real ones.
  static Fibers* current();

  // Starts a fiber of the host. Threads that a fiber makes belong to its host.
  void Start(FiberHost* host, std::function<void()> body);
  // Runs `event` after a while, outside of all fibers; it must not wait.
  void After(absl::Duration delay, std::function<void()> event);
  // The calling fiber waits. Time passes also for a paused host.
  void Sleep(absl::Duration duration);

  void Pause(FiberHost* host) { host->paused = true; }
  void Resume(FiberHost* host);

  // Runs fibers and events until `done` (asked between two turns) or the end of virtual time or of
  // all work. False: `done` never held.
  bool Run(absl::Time end, const std::function<bool()>& done);

  absl::Time now() const { return now_; }
  // Since the start of the simulation.
  double seconds() const { return absl::ToDoubleSeconds(now_ - kStart); }
  const Clock* clock() const { return clock_.get(); }
  uint64_t num_turns() const { return turns_; }
  size_t num_fibers() const { return fibers_.size(); }
  // The hosts of the fibers that have not ended.
  std::string Describe() const;

  // For what replaces the library's functions. `channel` is the condition variable's address.
  // False: the deadline came first. `mutex` is released meanwhile; may be null.
  bool Wait(const void* channel, pthread_mutex_t* mutex, absl::Time deadline);
  void Notify(const void* channel, bool all);
  bool in_fiber() const { return running_ != nullptr; }
  uint64_t StartThread(std::function<void()> body);
  void Join(uint64_t thread);

 private:
  struct Timer {
    absl::Time time;
    uint64_t number;  // Timers of one time run in the order they were set.
    uint64_t fiber;   // Its number; 0: `event`.
    uint64_t wait;    // The fiber's wait that it ends.
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
  uint64_t turns_now_ = 0;  // Since time last passed.
  uint64_t next_number_ = 1;
  std::vector<Fiber*> ready_;
  std::priority_queue<Timer*, std::vector<Timer*>, Later> timers_;
  std::unordered_map<const void*, std::vector<Fiber*>> waiting_;
  std::unordered_map<uint64_t, Fiber*> fibers_;  // By number; not ended.
  Fiber* running_ = nullptr;
  std::unique_ptr<Fiber> scheduler_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_FIBERS_H_
