#include "ml/tensor/device_spec.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace shoal {
namespace {

absl::Status UnknownAttribute(absl::string_view part, absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("Unknown attribute: '", part, "' in device '", text,
                   "'; a device reads /job:NAME/task:N/device:CPU:N, each part optional"));
}

// "3" sets the index, "*" leaves it open.
bool ParseIndex(absl::string_view text, std::optional<int>* index) {
  if (text == "*") return true;
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) return false;
  *index = value;
  return true;
}

bool IsDeviceType(absl::string_view upper) { return upper == "CPU" || upper == "GPU"; }

// Reads the parts of "device:GPU:0" or "gpu:0" from `begin` on.
absl::Status ParseDevice(const std::vector<std::string>& fields, size_t begin,
                         absl::string_view text, DeviceSpec* spec) {
  if (!spec->device_type.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("Cannot specify multiple device types: ", text));
  }
  spec->device_type = absl::AsciiStrToUpper(fields[begin]);
  const bool has_index = fields.size() == begin + 2;
  if (!IsDeviceType(spec->device_type) || fields.size() > begin + 2 ||
      (has_index && !ParseIndex(fields[begin + 1], &spec->device_index))) {
    return UnknownAttribute(fields[begin], text);
  }
  return absl::OkStatus();
}

absl::Status ParsePart(absl::string_view part, absl::string_view text, DeviceSpec* spec) {
  const std::vector<std::string> fields = absl::StrSplit(part, ':');
  const std::string key = absl::AsciiStrToLower(fields[0]);
  if (fields.size() == 2 && key == "job" && !fields[1].empty()) {
    spec->job = fields[1];
    return absl::OkStatus();
  }
  if (fields.size() == 2 && key == "replica" && ParseIndex(fields[1], &spec->replica)) {
    return absl::OkStatus();
  }
  if (fields.size() == 2 && key == "task" && ParseIndex(fields[1], &spec->task)) {
    return absl::OkStatus();
  }
  if (fields.size() >= 2 && key == "device") return ParseDevice(fields, 1, text, spec);
  if (IsDeviceType(absl::AsciiStrToUpper(key))) return ParseDevice(fields, 0, text, spec);
  return UnknownAttribute(part, text);
}

}  // namespace

absl::StatusOr<DeviceSpec> DeviceSpec::Parse(absl::string_view text) {
  DeviceSpec spec;
  for (absl::string_view part : absl::StrSplit(text, '/', absl::SkipEmpty())) {
    absl::Status status = ParsePart(part, text, &spec);
    if (!status.ok()) return status;
  }
  return spec;
}

DeviceSpec DeviceSpec::MergedWith(const DeviceSpec& inner) const {
  DeviceSpec merged = *this;
  if (!inner.job.empty()) merged.job = inner.job;
  if (inner.replica.has_value()) merged.replica = inner.replica;
  if (inner.task.has_value()) merged.task = inner.task;
  if (!inner.device_type.empty()) {
    if (inner.device_type != device_type) merged.device_index.reset();
    merged.device_type = inner.device_type;
  }
  if (inner.device_index.has_value()) merged.device_index = inner.device_index;
  return merged;
}

std::string DeviceSpec::ToString() const {
  std::string text;
  if (!job.empty()) absl::StrAppend(&text, "/job:", job);
  if (replica.has_value()) absl::StrAppend(&text, "/replica:", *replica);
  if (task.has_value()) absl::StrAppend(&text, "/task:", *task);
  if (!device_type.empty()) {
    absl::StrAppend(&text, "/device:", device_type, ":",
                    device_index.has_value() ? absl::StrCat(*device_index) : "*");
  }
  return text;
}

}  // namespace shoal
