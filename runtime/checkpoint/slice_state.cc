#include "runtime/checkpoint/slice_state.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/interval_set.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

absl::Status Malformed(absl::string_view text) {
  return absl::DataLossError(absl::StrCat("malformed state of a slice: \"", text, "\""));
}

absl::StatusOr<uint64_t> Number(absl::string_view text) {
  uint64_t value = 0;
  if (text.empty() || !absl::SimpleAtoi(text, &value)) return Malformed(text);
  return value;
}

// "3:0-5,7-9"
absl::StatusOr<EpochBatches> DecodeEpoch(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  ASSIGN_OR_RETURN(const uint64_t epoch, Number(parts.first));
  if (epoch > UINT32_MAX || parts.second.empty()) return Malformed(text);
  std::vector<IntervalSet::Range> ranges;
  for (absl::string_view range : absl::StrSplit(parts.second, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    ASSIGN_OR_RETURN(const uint64_t begin, Number(ends.first));
    ASSIGN_OR_RETURN(const uint64_t end, Number(ends.second));
    ranges.push_back({begin, end});
  }
  EpochBatches result;
  result.epoch = static_cast<uint32_t>(epoch);
  absl::StatusOr<IntervalSet> batches = IntervalSet::FromRanges(ranges);
  if (!batches.ok()) return Malformed(text);
  result.batches = *std::move(batches);
  return result;
}

}  // namespace

std::string EncodeSliceState(const SavedSliceState& state) {
  std::string text =
      absl::StrCat("version=", state.version, " value_version=", state.value_version);
  const char* separator = " applied=";
  for (const EpochBatches& epoch : state.applied) {
    if (epoch.batches.empty()) continue;
    absl::StrAppend(&text, separator, epoch.epoch);
    char before = ':';
    for (const IntervalSet::Range& range : epoch.batches.ranges()) {
      absl::StrAppend(&text, std::string(1, before), range.begin, "-", range.end);
      before = ',';
    }
    separator = ";";
  }
  return text;
}

absl::StatusOr<SavedSliceState> DecodeSliceState(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  SavedSliceState state;
  if (parts.size() < 2 || parts.size() > 3) return Malformed(text);
  absl::string_view version = parts[0], value_version = parts[1];
  if (!absl::ConsumePrefix(&version, "version=") ||
      !absl::ConsumePrefix(&value_version, "value_version=")) {
    return Malformed(text);
  }
  ASSIGN_OR_RETURN(state.version, Number(version));
  ASSIGN_OR_RETURN(state.value_version, Number(value_version));
  if (parts.size() == 2) return state;
  absl::string_view applied = parts[2];
  if (!absl::ConsumePrefix(&applied, "applied=")) return Malformed(text);
  for (absl::string_view epoch : absl::StrSplit(applied, ';')) {
    ASSIGN_OR_RETURN(EpochBatches batches, DecodeEpoch(epoch));
    state.applied.push_back(std::move(batches));
  }
  return state;
}

std::string EncodeSliceName(const SliceName& name) {
  return absl::StrCat(name.variable, "|", name.index, name.slot.empty() ? "" : "|", name.slot);
}

absl::StatusOr<SliceName> DecodeSliceName(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '|');
  const auto refused = [text] {
    return absl::DataLossError(absl::StrCat("\"", text, "\" is not the name of a slice"));
  };
  SliceName name;
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty() ||
      !absl::SimpleAtoi(parts[1], &name.index)) {
    return refused();
  }
  name.variable = parts[0];
  if (parts.size() == 3) name.slot = parts[2];
  // A slice has one name only: "w|00" would be the same as "w|0".
  return EncodeSliceName(name) == text ? absl::StatusOr<SliceName>(name) : refused();
}

}  // namespace shoal
