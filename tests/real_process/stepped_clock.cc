// For LD_PRELOAD: the system's time is what it is plus the number of seconds in the file that
// STEPPED_CLOCK names, once that file is there. Clocks that count from the start of the machine are
// left alone, as when an administrator or NTP sets the clock.
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

time_t StepSeconds() {
  const char* const path = std::getenv("STEPPED_CLOCK");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32] = {};
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  return size > 0 ? std::strtol(text, nullptr, 10) : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto system = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = system(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += StepSeconds();
  return result;
}
