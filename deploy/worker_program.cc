#include "deploy/worker_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/text_proto.h"
#include "runtime/process/child.h"
#include "runtime/process/protocol_version.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

constexpr char kField[] = "worker_binary";
constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr uint64_t kMaxOutputBytes = 16 << 20;

// A directory that goes with it.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(FileSystem* file_system) : file_system_(file_system) {}
  ~ScratchDirectory() {
    if (!path_.empty()) RemoveTree(*file_system_, path_).IgnoreError();
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  absl::Status Make() {
    char name[] = "/tmp/shoal_XXXXXX";
    if (mkdtemp(name) == nullptr) {
      return StatusOfErrno(errno, absl::StrCat("cannot make ", name));
    }
    path_ = name;
    return absl::OkStatus();
  }
  std::string File(absl::string_view name) const { return JoinPath(path_, name); }

 private:
  FileSystem* const file_system_;
  std::string path_;
};

absl::Status CheckIsProgram(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    if (IsPassingError(errno)) return StatusOfErrno(errno, absl::StrCat(kField, ": ", path));
    return absl::NotFoundError(
        absl::StrCat(kField, ": there is no ", path, "; build it, or name another program"));
  }
  if (S_ISREG(info.st_mode)) {
    if (access(path.c_str(), X_OK) == 0) return absl::OkStatus();
    if (IsPassingError(errno)) return StatusOfErrno(errno, absl::StrCat(kField, ": ", path));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(kField, ": ", path,
                   S_ISREG(info.st_mode) ? " may not be executed; name a program, or chmod +x it"
                                         : " is not a file; name a program"));
}

bool IsThisProgram(const std::string& path) {
  struct stat that = {};
  struct stat self = {};
  return stat(path.c_str(), &that) == 0 && stat("/proc/self/exe", &self) == 0 &&
         that.st_dev == self.st_dev && that.st_ino == self.st_ino;
}

absl::Status NoGood(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(kField, ": ", path, " ", what));
}

// The last line that is not empty; the last of those that begin with the prefix, without it, if any
// does.
std::string LastLine(const std::string& text, absl::string_view prefix, bool* has_prefix) {
  std::string last;
  *has_prefix = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const bool has_words = absl::ConsumePrefix(&line, prefix);
    if (line.empty() || (*has_prefix && !has_words)) continue;
    *has_prefix = has_words;
    last = std::string(line.substr(0, 400));
  }
  return last;
}

// Describes the end of a program that gave no answer.
absl::Status DescribeEnd(const std::string& path, const ChildExit& exit,
                         const std::string& output) {
  bool has_words = false;
  const std::string words = LastLine(output, "shoal declare: ", &has_words);
  if (has_words && !exit.by_signal && !exit.ok()) return absl::Status(exit.status_code(), words);
  if (exit.ok()) {
    return NoGood(path,
                  "gave no answer, so it is not a worker program; its main must return "
                  "shoal::worker::Main(argc, argv, model)");
  }
  return NoGood(path, absl::StrCat("ended when it was asked for its model: ", exit.Describe(),
                                   words.empty() ? "" : ": ", words));
}

// Waits in short intervals, so that Ctrl-C is noticed.
absl::StatusOr<ChildExit> WaitForEnd(const ChildOptions& options, Child* child,
                                     FileSystem* file_system, const ShutdownNotification& shutdown,
                                     absl::Duration timeout) {
  const std::string& path = options.args[0];
  const RealClock clock;
  const absl::Time end = clock.Now() + timeout;
  while (true) {
    if (const std::optional<ChildExit> exit = child->WaitFor(kTick)) return *exit;
    if (shutdown.requested()) return absl::CancelledError("stopped before the run had started");
    const absl::StatusOr<FileInfo> written = file_system->GetInfo(options.log_file);
    if (written.ok() && written->size > kMaxOutputBytes) {
      return NoGood(path, "writes without end when it is asked for its model");
    }
    if (clock.Now() >= end) {
      return NoGood(path, absl::StrCat("did not report within ", absl::FormatDuration(timeout),
                                       " what its model is"));
    }
  }
}

absl::StatusOr<v1::WorkerProgram> ParseAnswer(const std::string& path, const std::string& text) {
  // The version stands first, whatever else another version says.
  absl::string_view first = absl::string_view(text).substr(0, text.find('\n'));
  uint32_t protocol = 0;
  if (!absl::ConsumePrefix(&first, "protocol: ") || !absl::SimpleAtoi(first, &protocol)) {
    return NoGood(path, "gave an answer without a protocol version, so it is not a worker program");
  }
  if (protocol != kProtocolVersion) {
    return NoGood(path, absl::StrCat("speaks protocol ", protocol, ", this shoal ",
                                     kProtocolVersion, "; build both from the same sources"));
  }
  v1::WorkerProgram program;
  const absl::Status parsed = ParseTextProto(text, "answer", &program);
  return parsed.ok() ? absl::StatusOr<v1::WorkerProgram>(std::move(program))
                     : NoGood(path, absl::StrCat("gave a damaged answer: ", parsed.message()));
}

}  // namespace

absl::StatusOr<v1::WorkerProgram> AskWorkerProgram(const v1::RunConfig& run,
                                                   FileSystem* file_system,
                                                   const ShutdownNotification& shutdown,
                                                   absl::Duration timeout) {
  const std::string& path = run.deployment().worker_binary();
  RETURN_IF_ERROR(CheckIsProgram(path));
  ScratchDirectory scratch(file_system);
  RETURN_IF_ERROR(scratch.Make());
  RETURN_IF_ERROR(
      WriteAtomically(*file_system, scratch.File("asked.textproto"), PrintRunConfig(run)));
  ChildOptions options;
  options.name = kField;
  options.log_file = scratch.File("output");
  options.args = {path, "declare", absl::StrCat("--run=", scratch.File("asked.textproto")),
                  absl::StrCat("--out=", run.out()),
                  absl::StrCat("--answer=", scratch.File("answer"))};
  absl::StatusOr<std::unique_ptr<Child>> child = Child::Start(options);
  if (absl::IsUnavailable(child.status())) return child.status();  // It may start later.
  if (!child.ok()) return absl::FailedPreconditionError(child.status().message());
  ASSIGN_OR_RETURN(const ChildExit exit,
                   WaitForEnd(options, child->get(), file_system, shutdown, timeout));
  const absl::StatusOr<std::string> answer = ReadFile(*file_system, scratch.File("answer"));
  if (exit.ok() && answer.ok()) return ParseAnswer(path, *answer);
  if (exit.ok() && absl::IsUnavailable(answer.status())) return answer.status();
  const absl::StatusOr<std::string> output = ReadFile(*file_system, options.log_file);
  return DescribeEnd(path, exit, output.ok() ? *output : "");
}

absl::Status BecomeProgram(const std::string& path, absl::Span<const std::string> args) {
  RETURN_IF_ERROR(CheckIsProgram(path));
  if (IsThisProgram(path)) {  // It would become itself for ever.
    return NoGood(path,
                  "is this program, which has no model of its own; name the one that trained");
  }
  std::vector<std::string> all = {path};
  all.insert(all.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& arg : all) argv.push_back(arg.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  if (IsPassingError(errno)) return StatusOfErrno(errno, absl::StrCat(kField, ": ", path));
  return NoGood(path, absl::StrCat("cannot be started: ", std::strerror(errno)));
}

}  // namespace shoal
