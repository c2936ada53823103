#include "tests/simulation/fibers.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/log.h"

#if defined(__SANITIZE_ADDRESS__)
#define SHOAL_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHOAL_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(SHOAL_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace shoal {
namespace {

constexpr size_t kStackBytes = 512 << 10;  // Touched only as far as it is used.
// The number of turns without an advance of time that is considered an endless loop.
constexpr uint64_t kMostTurnsAtOnce = 2000000;

Fibers* g_current = nullptr;

#if defined(SHOAL_ADDRESS_SANITIZER)
// The scheduler's stack.
const void* g_bottom = nullptr;
size_t g_size = 0;
#endif

// A pool of unused stacks, because mapping a stack takes longer than most fibers run.
std::vector<void*>& FreeStacks() {
  static auto* const stacks = new std::vector<void*>;
  return *stacks;
}

void* TakeStack() {
  if (FreeStacks().empty()) {
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(stack != MAP_FAILED) << "no memory for a stack";
    CHECK_EQ(mprotect(stack, 4096, PROT_NONE), 0);  // Overflow ends the program.
    return stack;
  }
  void* stack = FreeStacks().back();
  FreeStacks().pop_back();
  return stack;
}

class FiberClock : public Clock {
 public:
  explicit FiberClock(const Fibers* fibers) : fibers_(fibers) {}
  absl::Time Now() const override { return fibers_->now(); }
  bool WaitUntil(absl::Time deadline, Mutex* mutex, CondVar* changed) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (fibers_->now() >= deadline) return false;
    if (deadline == absl::InfiniteFuture()) {
      changed->Wait(mutex);
    } else {
      // The library counts whole nanoseconds.
      changed->WaitFor(mutex, absl::Ceil(deadline - fibers_->now(), absl::Nanoseconds(1)));
    }
    return fibers_->now() < deadline;
  }

 private:
  const Fibers* const fibers_;
};

}  // namespace

class Fiber {
 public:
  uint64_t number = 0;
  FiberHost* host = nullptr;
  std::function<void()> body;
  void* stack = nullptr;
  bool started = false;
  bool ended = false;
  bool is_thread = false;         // Somebody will join it.
  const void* channel = nullptr;  // Waits for it to be notified;
  uint64_t wait = 0;              // counts waits.
  bool timed_out = false;
  ucontext_t context;
  jmp_buf jump;
  void* fake_stack = nullptr;
};

uint64_t SeededRandom::Next() {
  state_ += 0x9e3779b97f4a7c15;
  return MixBits(state_);
}

Fibers::Fibers(uint64_t seed)
    : random_(seed ^ 0x5ced01e5), clock_(new FiberClock(this)), scheduler_(new Fiber) {
  CHECK(g_current == nullptr) << "there is one world at a time";
  g_current = this;
}

Fibers::~Fibers() {
  CHECK(fibers_.empty()) << "fibers have not ended: " << Describe();
  while (!timers_.empty()) {
    delete timers_.top();
    timers_.pop();
  }
  g_current = nullptr;
}

Fibers* Fibers::current() { return g_current; }

std::string Fibers::Describe() const {
  std::map<std::string, int> hosts;
  for (const auto& [number, fiber] : fibers_) ++hosts[fiber->host->name];
  std::string text;
  for (const auto& [name, count] : hosts) absl::StrAppend(&text, " ", name, "(", count, ")");
  return text;
}

Fiber* Fibers::Make(FiberHost* host, std::function<void()> body) {
  auto* fiber = new Fiber;
  fiber->number = next_number_++;
  fiber->host = host;
  fiber->body = std::move(body);
  fiber->stack = TakeStack();
  fibers_[fiber->number] = fiber;
  SetReady(fiber);
  return fiber;
}

void Fibers::Start(FiberHost* host, std::function<void()> body) { Make(host, std::move(body)); }

uint64_t Fibers::StartThread(std::function<void()> body) {
  CHECK(running_ != nullptr) << "only fibers make threads";
  Fiber* fiber = Make(running_->host, std::move(body));
  fiber->is_thread = true;
  return fiber->number;
}

void Fibers::SetReady(Fiber* fiber) {
  fiber->channel = nullptr;
  if (fiber->host->paused) {
    fiber->host->held.push_back(fiber);
  } else {
    ready_.push_back(fiber);
  }
}

void Fibers::Resume(FiberHost* host) {
  host->paused = false;
  ready_.insert(ready_.end(), host->held.begin(), host->held.end());
  host->held.clear();
}

void Fibers::AddTimer(absl::Time time, const Fiber* fiber, std::function<void()> event) {
  timers_.push(new Timer{time, next_number_++, fiber == nullptr ? 0 : fiber->number,
                         fiber == nullptr ? 0 : fiber->wait, std::move(event)});
}

void Fibers::After(absl::Duration delay, std::function<void()> event) {
  AddTimer(now_ + absl::Ceil(delay, absl::Microseconds(1)), nullptr, std::move(event));
}

void Fibers::Sleep(absl::Duration duration) {
  Fiber* const self = running_;
  Wait(self, nullptr, now_ + absl::Ceil(duration, absl::Microseconds(1)));
}

bool Fibers::Wait(const void* channel, pthread_mutex_t* mutex, absl::Time deadline) {
  Fiber* const self = running_;
  CHECK(self != nullptr) << "only fibers wait";
  self->channel = channel;
  self->timed_out = false;
  ++self->wait;
  waiting_[channel].push_back(self);
  if (deadline != absl::InfiniteFuture()) AddTimer(std::max(deadline, now_), self, nullptr);
  if (mutex != nullptr) pthread_mutex_unlock(mutex);
  SwitchToScheduler();
  if (mutex != nullptr) pthread_mutex_lock(mutex);
  return !self->timed_out;
}

void Fibers::Notify(const void* channel, bool all) {
  const auto it = waiting_.find(channel);
  if (it == waiting_.end()) return;
  std::vector<Fiber*>& fibers = it->second;
  if (all || fibers.size() == 1) {
    const std::vector<Fiber*> woken = std::move(fibers);
    waiting_.erase(it);
    for (Fiber* fiber : woken) {
      ++fiber->wait;
      SetReady(fiber);
    }
    return;
  }
  const size_t which = random_.Below(fibers.size());
  Fiber* fiber = fibers[which];
  fibers.erase(fibers.begin() + static_cast<ptrdiff_t>(which));
  ++fiber->wait;
  SetReady(fiber);
}

void Fibers::Join(uint64_t thread) {
  while (true) {
    const auto it = fibers_.find(thread);
    CHECK(it != fibers_.end()) << "a thread is joined once";
    if (it->second->ended) {
      Free(it->second);
      return;
    }
    Wait(it->second, nullptr, absl::InfiniteFuture());
  }
}

bool Fibers::RunTimer(absl::Time end) {
  if (timers_.empty() || timers_.top()->time > end) return false;
  const std::unique_ptr<Timer> timer(timers_.top());
  timers_.pop();
  if (timer->time > now_) {
    now_ = timer->time;
    turns_now_ = 0;
  }
  if (timer->fiber == 0) {
    timer->event();
    return true;
  }
  const auto found = fibers_.find(timer->fiber);
  if (found == fibers_.end() || found->second->wait != timer->wait) return true;  // It was woken.
  Fiber* fiber = found->second;
  const auto it = waiting_.find(fiber->channel);
  it->second.erase(std::find(it->second.begin(), it->second.end(), fiber));
  if (it->second.empty()) waiting_.erase(it);
  fiber->timed_out = true;
  ++fiber->wait;
  SetReady(fiber);
  return true;
}

bool Fibers::Run(absl::Time end, const std::function<bool()>& done) {
  while (!done()) {
    if (ready_.empty()) {
      if (!RunTimer(end)) return false;
      continue;
    }
    const size_t which = ready_.size() == 1 ? 0 : random_.Below(ready_.size());
    Fiber* fiber = ready_[which];
    ready_[which] = ready_.back();
    ready_.pop_back();
    if (fiber->host->paused) {
      fiber->host->held.push_back(fiber);
      continue;
    }
    ++turns_;
    CHECK_LT(++turns_now_, kMostTurnsAtOnce) << "a loop without end in " << fiber->host->name;
    SwitchTo(fiber);
  }
  return true;
}

// The switch itself: swapcontext makes a system call each time, longjmp does not.
void Fibers::SwitchTo(Fiber* fiber) {
  running_ = fiber;
#if defined(SHOAL_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&scheduler_->fake_stack, static_cast<char*>(fiber->stack) + 4096,
                                 kStackBytes - 4096);
  if (!std::exchange(fiber->started, true)) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = static_cast<char*>(fiber->stack) + 4096;
    fiber->context.uc_stack.ss_size = kStackBytes - 4096;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Fibers::Enter, 0);
  }
  swapcontext(&scheduler_->context, &fiber->context);
  __sanitizer_finish_switch_fiber(scheduler_->fake_stack, nullptr, nullptr);
#else
  if (_setjmp(scheduler_->jump) == 0) {
    if (fiber->started) _longjmp(fiber->jump, 1);
    fiber->started = true;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Fibers::Enter, 0);
    setcontext(&fiber->context);
  }
#endif
  running_ = nullptr;
  if (!fiber->ended) return;
  fiber->body = nullptr;
  if (fiber->is_thread) {
    Notify(fiber, true);  // The fiber that joins it frees it.
    return;
  }
  Free(fiber);
}

void Fibers::Free(Fiber* fiber) {
#if defined(SHOAL_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(fiber->stack, kStackBytes);
#endif
  fibers_.erase(fiber->number);
  FreeStacks().push_back(fiber->stack);
  delete fiber;
}

void Fibers::SwitchToScheduler() {
  Fiber* const self = running_;
#if defined(SHOAL_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(self->ended ? nullptr : &self->fake_stack, g_bottom, g_size);
  swapcontext(&self->context, &scheduler_->context);
  __sanitizer_finish_switch_fiber(self->fake_stack, &g_bottom, &g_size);
#else
  if (_setjmp(self->jump) == 0) _longjmp(scheduler_->jump, 1);
#endif
}

void Fibers::Enter() {
#if defined(SHOAL_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, &g_bottom, &g_size);
#endif
  Fibers* const fibers = g_current;
  fibers->running_->body();
  fibers->running_->ended = true;
  fibers->SwitchToScheduler();
}

}  // namespace shoal

// Replacements of functions of the C++ library. Names and signatures are libstdc++'s.

namespace std {

void thread::_M_start_thread(_State_ptr state, void (*)()) {
  shoal::Fibers* const fibers = shoal::Fibers::current();
  CHECK(fibers != nullptr) << "a program that simulates has no threads beside the simulation";
  const std::shared_ptr<_State> shared(std::move(state));
  _M_id._M_thread = fibers->StartThread([shared] { shared->_M_run(); });
}

void thread::join() {
  shoal::Fibers::current()->Join(_M_id._M_thread);
  _M_id = id();
}

void condition_variable::wait(unique_lock<mutex>& lock) {
  shoal::Fibers* const fibers = shoal::Fibers::current();
  CHECK(fibers != nullptr) << "nobody will notify";
  fibers->Wait(this, lock.mutex()->native_handle(), absl::InfiniteFuture());
}

void condition_variable::notify_one() noexcept {
  if (shoal::Fibers::current() != nullptr) shoal::Fibers::current()->Notify(this, false);
}

void condition_variable::notify_all() noexcept {
  if (shoal::Fibers::current() != nullptr) shoal::Fibers::current()->Notify(this, true);
}

chrono::steady_clock::time_point chrono::steady_clock::now() noexcept {
  const shoal::Fibers* const fibers = shoal::Fibers::current();
  if (fibers != nullptr) {
    return time_point(absl::ToChronoNanoseconds(fibers->now() - shoal::Fibers::kStart));
  }
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return time_point(chrono::seconds(now.tv_sec) + chrono::nanoseconds(now.tv_nsec));
}

}  // namespace std

// condition_variable::wait_for and wait_until call these. The address is the condition variable's.
extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      clockid_t /*clock*/, const struct timespec* deadline) {
  shoal::Fibers* const fibers = shoal::Fibers::current();
  CHECK(fibers != nullptr) << "nobody will notify";
  const absl::Time until = shoal::Fibers::kStart + absl::Seconds(deadline->tv_sec) +
                           absl::Nanoseconds(deadline->tv_nsec);
  return fibers->Wait(condition, mutex, until) ? 0 : ETIMEDOUT;
}
