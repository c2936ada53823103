#include "runtime/process/report_address.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
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
  std::string text;
  while (text.size() < kMaxAddressBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return absl::DeadlineExceededError("did not say where it serves in time");
    pollfd entry = {fd, POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    char c = 0;
    const ssize_t count = read(fd, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::UnavailableError("ended before it said where it serves");
    if (c == '\n') return text;
    text.push_back(c);
  }
  return absl::InternalError("said something that is no address");
}

}  // namespace shoal
