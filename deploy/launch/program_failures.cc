#include "deploy/launch/program_failures.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace shoal {
namespace {

// Returns whether the text begins with "FILE:LINE: ".
bool NamesALine(absl::string_view text) {
  const size_t end = text.find(": ");
  if (end == absl::string_view::npos) return false;
  const absl::string_view place = text.substr(0, end);
  const size_t colon = place.rfind(':');
  if (colon == 0 || colon == absl::string_view::npos || colon + 1 == place.size()) return false;
  const absl::string_view line = place.substr(colon + 1);
  return std::all_of(line.begin(), line.end(), absl::ascii_isdigit);
}

}  // namespace

std::optional<ProgramFailure> ProgramFailureIn(absl::string_view words) {
  if (!absl::ConsumePrefix(&words, "program: ")) return std::nullopt;
  ProgramFailure failure;
  failure.cause = std::string(words.substr(0, words.rfind("; see ")));
  failure.names_a_line = NamesALine(failure.cause);
  return failure;
}

bool ProgramFailures::Add(uint32_t worker, const std::string& cause, uint64_t step) {
  const bool is_new = cause != cause_;
  if (is_new || step != step_) {
    failures_ = 0;
    workers_.clear();
  }
  cause_ = cause;
  step_ = step;
  ++failures_;
  workers_.insert(worker);
  return is_new;
}

bool ProgramFailures::IsBug(size_t num_workers) const {
  return workers_.size() >= num_workers && failures_ > num_workers;
}

}  // namespace shoal
