#include "worker/evaluator/run_watch.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"

namespace shoal {
namespace {

constexpr absl::Duration kFirstRepeat = absl::Seconds(30);

std::string InSeconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

}  // namespace

std::string SignOfRun(FileSystem* file_system, const std::string& directory) {
  std::string sign;
  // The starts, by their chief's number and the addresses of their tasks, and the end.
  for (const char* name : {"TERM", "cluster.textproto", "summary.json"}) {
    const absl::StatusOr<std::string> text = ReadFile(*file_system, JoinPath(directory, name));
    if (text.ok()) absl::StrAppend(&sign, name, ":", *text, "\n");
  }
  const absl::StatusOr<FileInfo> metrics =
      file_system->GetInfo(JoinPath(directory, "metrics.jsonl"));
  if (metrics.ok()) absl::StrAppend(&sign, "metrics ", metrics->size, "\n");
  const auto checkpoints = file_system->List(JoinPath(directory, "checkpoints"));
  if (!checkpoints.ok()) return sign;
  for (const std::string& name : *checkpoints) absl::StrAppend(&sign, name, "\n");
  return sign;
}

RunWatch::RunWatch(absl::Time now, absl::Duration patience, std::function<bool()> is_held)
    : patience_(patience), is_held_(std::move(is_held)), begun_(now), last_sign_(now) {}

absl::StatusOr<std::string> RunWatch::Wait(absl::Time now, const std::string& what,
                                           const std::string& sign) {
  if (sign != sign_) {
    sign_ = sign;
    last_sign_ = now;
  }
  if (now - last_sign_ >= patience_) {
    if (!is_held_()) {
      return absl::UnavailableError(
          absl::StrCat("waited for ", what, "; there was no sign of the run for ",
                       absl::FormatDuration(patience_),
                       ": start the run, correct --out, or raise cluster.wait_seconds"));
    }
    last_sign_ = now;
  }
  if (what != what_) {
    what_ = what;
    begun_ = now;
    next_repeat_ = kFirstRepeat;
    return absl::StrCat("waits for ", what, "; ends when there is no sign of the run for ",
                        absl::FormatDuration(patience_), " (cluster.wait_seconds)");
  }
  if (now - begun_ < next_repeat_) return std::string();
  next_repeat_ *= 2;
  return absl::StrCat("has waited ", InSeconds(now - begun_), " for ", what,
                      "; the last sign of the run was ", InSeconds(now - last_sign_), " ago");
}

}  // namespace shoal
