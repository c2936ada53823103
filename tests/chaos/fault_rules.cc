#include "tests/chaos/fault_rules.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace shoal {
namespace {

absl::StatusOr<FaultKind> ParseKind(absl::string_view text) {
  if (text == "error") return FaultKind::kError;
  if (text == "replace") return FaultKind::kReplace;
  if (text == "delay") return FaultKind::kDelay;
  if (text == "drop") return FaultKind::kDrop;
  if (text == "lose") return FaultKind::kLose;
  if (text == "hold") return FaultKind::kHold;
  return absl::InvalidArgumentError(absl::StrCat(
      "kind=", text, " is none of error, replace, delay, drop, lose, hold: name one of them"));
}

bool ParseField(absl::string_view key, absl::string_view value, FaultRule* rule) {
  if (key == "link") return (rule->link = std::string(value), true);
  if (key == "method") return (rule->method = std::string(value), true);
  if (key == "from") return (rule->from = std::string(value), true);
  if (key == "after") return absl::SimpleAtoi(value, &rule->after);
  if (key == "count") return absl::SimpleAtoi(value, &rule->count);
  if (key == "chance") return absl::SimpleAtod(value, &rule->chance);
  if (key == "code") return absl::SimpleAtoi(value, &rule->code);
  if (key == "ms") return absl::SimpleAtoi(value, &rule->milliseconds);
  return false;
}

absl::string_view LastPart(absl::string_view method) {
  return method.substr(method.rfind('/') + 1);
}

}  // namespace

absl::StatusOr<FaultRule> ParseFaultRule(absl::string_view text) {
  FaultRule rule;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (rule.name.empty()) {
      rule.name = std::string(word);
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (field.first == "kind") {
      const absl::StatusOr<FaultKind> kind = ParseKind(field.second);
      if (!kind.ok()) return kind.status();
      rule.kind = *kind;
    } else if (!ParseField(field.first, field.second, &rule)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", word, "\" is not a field of a rule; fields are link, method, from, after, count, ",
          "chance, kind, code and ms"));
    }
  }
  if (rule.kind == FaultKind::kNone) {
    return absl::InvalidArgumentError("a rule needs a name and kind=...");
  }
  return rule;
}

absl::Status FaultRules::Add(FaultRule rule) {
  if (Has(rule.name)) {
    return absl::AlreadyExistsError(absl::StrCat("a rule \"", rule.name, "\" is there"));
  }
  rules_.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status FaultRules::Remove(absl::string_view name) {
  const auto found = std::find_if(rules_.begin(), rules_.end(),
                                  [name](const FaultRule& rule) { return rule.name == name; });
  if (found == rules_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no rule \"", name, "\""));
  }
  rules_.erase(found);
  return absl::OkStatus();
}

bool FaultRules::Has(absl::string_view name) const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [name](const FaultRule& rule) { return rule.name == name; });
}

FaultRule FaultRules::Decide(absl::string_view link, absl::string_view method,
                             absl::string_view from, uint64_t bytes) {
  const absl::string_view short_method = LastPart(method);
  Traffic& traffic = traffic_[{std::string(link), std::string(short_method)}];
  ++traffic.calls;
  traffic.bytes += bytes;
  for (FaultRule& rule : rules_) {
    if (!rule.link.empty() && rule.link != link) continue;
    if (!rule.method.empty() && rule.method != short_method) continue;
    if (!rule.from.empty() && rule.from != from) continue;
    if (++rule.matched <= rule.after) continue;
    if (rule.count != 0 && rule.disturbed >= rule.count) continue;
    if (std::uniform_real_distribution<double>(0, 1)(random_) >= rule.chance) continue;
    ++rule.disturbed;
    return rule;
  }
  return FaultRule();
}

std::string FaultRules::Counts() const {
  std::string calls;
  for (const auto& [key, traffic] : traffic_) {
    absl::StrAppend(&calls, calls.empty() ? "" : ", ", "\"", key.first, " ", key.second,
                    "\": {\"calls\": ", traffic.calls, ", \"bytes\": ", traffic.bytes, "}");
  }
  std::string rules;
  for (const FaultRule& rule : rules_) {
    absl::StrAppend(&rules, rules.empty() ? "" : ", ", "\"", rule.name,
                    "\": {\"matched\": ", rule.matched, ", \"disturbed\": ", rule.disturbed, "}");
  }
  return absl::StrCat("{\"calls\": {", calls, "}, \"rules\": {", rules, "}}");
}

}  // namespace shoal
