// A task that serves at port 0 reports its actual address to its launcher as one line in a pipe.
#ifndef SHOAL_RUNTIME_PROCESS_REPORT_ADDRESS_H_
#define SHOAL_RUNTIME_PROCESS_REPORT_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace shoal {

// Writes "ADDRESS\n" and closes the descriptor. Does nothing for a negative one.
absl::Status ReportAddress(int report_fd, absl::string_view address);

// Reads the line of ReportAddress. Returns Unavailable if the other end was closed without a line
// (the task died), DeadlineExceeded if no line came within `timeout`. The descriptor stays open.
absl::StatusOr<std::string> ReadReportedAddress(int fd, absl::Duration timeout);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_REPORT_ADDRESS_H_
