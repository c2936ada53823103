// A library for LD_PRELOAD that makes the system behave like a faulty machine. The file that
// DISTURBED_SYSTEM names holds three int64 numbers that may change at any time: how many
// milliseconds each fsync and fdatasync takes longer, and by how many seconds the time of day
// (CLOCK_REALTIME) and the time since the machine's start (CLOCK_BOOTTIME) are ahead.
// MACHINE_MEBIBYTES is the memory that the machine claims to have.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

struct Disturbance {
  volatile int64_t sync_milliseconds;
  volatile int64_t realtime_seconds;
  volatile int64_t boottime_seconds;
};

const Disturbance kNone = {0, 0, 0};

const Disturbance* Map() {
  const char* const path = std::getenv("DISTURBED_SYSTEM");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return &kNone;
  void* const mapped = mmap(nullptr, sizeof(Disturbance), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? &kNone : static_cast<const Disturbance*>(mapped);
}

const Disturbance& Current() {
  static const Disturbance* const current = Map();
  return *current;
}

template <typename Function>
Function System(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void WaitForTheDisk() {
  const int64_t milliseconds = Current().sync_milliseconds;
  if (milliseconds <= 0) return;
  const timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

}  // namespace

extern "C" {

int fsync(int fd) {
  static const auto system = System<int (*)(int)>("fsync");
  WaitForTheDisk();
  return system(fd);
}

int fdatasync(int fd) {
  static const auto system = System<int (*)(int)>("fdatasync");
  WaitForTheDisk();
  return system(fd);
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto system = System<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = system(clock, now);
  if (result != 0) return result;
  if (clock == CLOCK_REALTIME) now->tv_sec += Current().realtime_seconds;
  if (clock == CLOCK_BOOTTIME) now->tv_sec += Current().boottime_seconds;
  return 0;
}

long sysconf(int name) noexcept {  // NOLINT(google-runtime-int): the system's type
  static const auto system = System<long (*)(int)>("sysconf");
  const char* const mebibytes = name == _SC_PHYS_PAGES ? std::getenv("MACHINE_MEBIBYTES") : nullptr;
  if (mebibytes == nullptr) return system(name);
  return (std::strtol(mebibytes, nullptr, 10) << 20) / system(_SC_PAGESIZE);
}

}  // extern "C"
