// Log lines and checks, named as those of absl/log, which this Abseil does not have.
//
//   LOG(INFO) << "restored step=" << step;
//   CHECK_EQ(a, b) << "slices of " << name;
//
// The first line logs "I 11:40:12.345 worker/0 shard.cc:12] restored step=120". The second logs the
// false condition and aborts: it is for our own bugs.
//
// Never use CHECK for data from the network, the disk, the configuration or a flag. Each line is
// one write, so lines of threads and of processes that share a file do not mix. Thread-safe.
#ifndef SHOAL_BASE_LOG_H_
#define SHOAL_BASE_LOG_H_

#include <memory>
#include <ostream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

enum class LogSeverity { kInfo = 0, kWarning = 1, kError = 2, kFatal = 3 };

struct LogOptions {
  // The task's name in every line, such as "worker/0"; empty before main has set it.
  std::string task;
  // The path of the file to which lines are appended; empty means standard error.
  std::string file;
  // Lines below this are dropped.
  LogSeverity min_severity = LogSeverity::kInfo;
};

// Sets where this process logs. Called by main once it knows its task; later calls replace the
// former. If there is a file, lines of severity kError and above go to standard error as well.
absl::Status SetUpLog(const LogOptions& options);

namespace internal {

bool IsLogged(LogSeverity severity);

// Collects one line and writes it when destroyed; kFatal then aborts.
class LogMessage {
 public:
  LogMessage(const char* file, int line, LogSeverity severity);
  ~LogMessage();
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  const char* const file_;
  const int line_;
  const LogSeverity severity_;
  std::ostringstream stream_;
};

// The same as LogMessage for kFatal. The compiler knows that control does not return.
class FatalLogMessage : public LogMessage {
 public:
  FatalLogMessage(const char* file, int line, const char* what)
      : LogMessage(file, line, LogSeverity::kFatal) {
    stream() << what;
  }
  [[noreturn]] ~FatalLogMessage();
};

// Gives the two branches of ?: in the macros one type.
struct Voidify {
  void operator&(std::ostream&) const {}
};

template <typename A, typename B>
std::unique_ptr<std::string> DescribeFailedCheck(const A& a, const B& b, const char* what) {
  std::ostringstream out;
  out << "Check failed: " << what << " (" << a << " vs. " << b << ") ";
  return std::make_unique<std::string>(out.str());
}

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

// Returns null if the status is OK.
std::unique_ptr<std::string> DescribeUnlessOk(const absl::Status& status, const char* what);

#define SHOAL_DEFINE_CHECK_OP(name, op)                                                    \
  template <typename A, typename B>                                                        \
  std::unique_ptr<std::string> Check##name(const A& a, const B& b, const char* what) {     \
    return __builtin_expect(!!(a op b), true) ? nullptr : DescribeFailedCheck(a, b, what); \
  }
SHOAL_DEFINE_CHECK_OP(EQ, ==)
SHOAL_DEFINE_CHECK_OP(NE, !=)
SHOAL_DEFINE_CHECK_OP(LT, <)
SHOAL_DEFINE_CHECK_OP(LE, <=)
SHOAL_DEFINE_CHECK_OP(GT, >)
SHOAL_DEFINE_CHECK_OP(GE, >=)
#undef SHOAL_DEFINE_CHECK_OP

}  // namespace internal
}  // namespace shoal

#define SHOAL_SEVERITY_INFO ::shoal::LogSeverity::kInfo
#define SHOAL_SEVERITY_WARNING ::shoal::LogSeverity::kWarning
#define SHOAL_SEVERITY_ERROR ::shoal::LogSeverity::kError
#define SHOAL_SEVERITY_FATAL ::shoal::LogSeverity::kFatal

#define LOG(severity) LOG_IF(severity, true)

#define LOG_IF(severity, condition)                                        \
  !((condition) && ::shoal::internal::IsLogged(SHOAL_SEVERITY_##severity)) \
      ? (void)0                                                            \
      : ::shoal::internal::Voidify() &                                     \
            ::shoal::internal::LogMessage(__FILE__, __LINE__, SHOAL_SEVERITY_##severity).stream()

#define CHECK(condition)                                                                        \
  __builtin_expect(!!(condition), true)                                                         \
      ? (void)0                                                                                 \
      : ::shoal::internal::Voidify() & ::shoal::internal::FatalLogMessage(                      \
                                           __FILE__, __LINE__, "Check failed: " #condition " ") \
                                           .stream()

#define SHOAL_CHECK_DESCRIBED(description)                               \
  while (const std::unique_ptr<std::string> shoal_failure = description) \
  ::shoal::internal::FatalLogMessage(__FILE__, __LINE__, shoal_failure->c_str()).stream()

#define SHOAL_CHECK_OP(name, op, a, b) \
  SHOAL_CHECK_DESCRIBED(::shoal::internal::Check##name((a), (b), #a " " #op " " #b))

#define CHECK_EQ(a, b) SHOAL_CHECK_OP(EQ, ==, a, b)
#define CHECK_NE(a, b) SHOAL_CHECK_OP(NE, !=, a, b)
#define CHECK_LT(a, b) SHOAL_CHECK_OP(LT, <, a, b)
#define CHECK_LE(a, b) SHOAL_CHECK_OP(LE, <=, a, b)
#define CHECK_GT(a, b) SHOAL_CHECK_OP(GT, >, a, b)
#define CHECK_GE(a, b) SHOAL_CHECK_OP(GE, >=, a, b)

// For an absl::Status or StatusOr that only our own bug can make an error.
#define CHECK_OK(expression) \
  SHOAL_CHECK_DESCRIBED(     \
      ::shoal::internal::DescribeUnlessOk(::shoal::internal::StatusOf(expression), #expression))

// Checks that are too slow for inner loops. They are always compiled but evaluated only with
// --config=dbg.
#ifdef NDEBUG
#define DCHECK(condition) \
  while (false) CHECK(condition)
#define DCHECK_LT(a, b) \
  while (false) CHECK_LT(a, b)
#define DCHECK_GT(a, b) \
  while (false) CHECK_GT(a, b)
#else
#define DCHECK(condition) CHECK(condition)
#define DCHECK_LT(a, b) CHECK_LT(a, b)
#define DCHECK_GT(a, b) CHECK_GT(a, b)
#endif

#endif  // SHOAL_BASE_LOG_H_
