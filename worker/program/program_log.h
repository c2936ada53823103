#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_LOG_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_LOG_H_

#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

// Returns what the log of a program that has ended says last, in one line of at most 1000 bytes:
// the last line that is not empty. A fatal error of Python prints the lines of all threads and
// more; it is named with the innermost line outside Python's libraries of the thread that failed.
// Returns "" if there is no such file, or nothing in it. Reads the file's last 64 KiB.
std::string EndOfLog(const std::string& path);

// Returns "; " and what to do if this end of a log says that Python has not found a module; else
// "".
std::string RemedyForModule(absl::string_view end_of_log);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_LOG_H_
