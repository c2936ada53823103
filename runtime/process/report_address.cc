#include "runtime/process/report_address.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr size_t kMaxAddressBytes = 4096;

}  // namespace

absl::Status ReportAddress(int report_fd, absl::string_view address) {
  if (report_fd < 0) return absl::OkStatus();
  const std::string line = absl::StrCat(address, "\n");
  // Shorter than PIPE_BUF, so it is written whole or not at all.
  ssize_t written = 0;
  do {
    written = write(report_fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  const int error = errno;
  close(report_fd);
  if (written == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("report_fd: cannot report the address: ", std::strerror(error)));
}

absl::StatusOr<std::string> ReadReportedAddress(int fd, absl::Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(timeout);
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd entry = {fd, POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready == 0) return absl::DeadlineExceededError("did not report its address in time");
    // In one piece, as it was written: a reader that gives up loses no part of it.
    char text[kMaxAddressBytes];
    const ssize_t count = ready < 0 ? ready : read(fd, text, sizeof(text));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::UnavailableError("ended before it reported its address");
    const absl::string_view written(text, static_cast<size_t>(count));
    const size_t line_end = written.find('\n');
    if (line_end != absl::string_view::npos) return std::string(written.substr(0, line_end));
    return absl::InternalError("reported a malformed address");
  }
}

}  // namespace shoal
