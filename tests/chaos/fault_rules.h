// The rules by which the proxy disturbs calls. Plain state: no thread, socket or clock.
#ifndef SHOAL_TESTS_CHAOS_FAULT_RULES_H_
#define SHOAL_TESTS_CHAOS_FAULT_RULES_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum class FaultKind {
  kNone,
  kError,    // The proxy answers `code`; the target never receives the call.
  kReplace,  // The target receives the call; the caller receives `code` instead of the answer.
  kDelay,    // The target receives the call `milliseconds` later.
  kDrop,     // The call vanishes on its way to the target; the caller waits for its deadline.
  kLose,     // The answer vanishes on its way back; the caller waits for its deadline.
  kHold,     // The target receives the call when the rule is removed.
};

struct FaultRule {
  std::string name;
  std::string link;    // Empty: every link.
  std::string method;  // "ReportSteps"; empty: every method.
  std::string from;    // "worker/1", by the call's identity; empty: every sender.
  uint64_t after = 0;  // The first `after` calls that match pass.
  uint64_t count = 0;  // After `count` disturbed calls the rule rests; 0: it never does.
  double chance = 1;   // The share of calls that are disturbed.
  FaultKind kind = FaultKind::kNone;
  int code = 13;  // A gRPC status code.
  int milliseconds = 0;

  uint64_t matched = 0;
  uint64_t disturbed = 0;
};

// Reads "NAME kind=error code=13 method=ReportSteps after=19 count=1 ...".
absl::StatusOr<FaultRule> ParseFaultRule(absl::string_view text);

class FaultRules {
 public:
  explicit FaultRules(uint64_t seed) : random_(seed) {}

  // ALREADY_EXISTS: another rule has the name.
  absl::Status Add(FaultRule rule);
  absl::Status Remove(absl::string_view name);
  void Clear() { rules_.clear(); }
  bool Has(absl::string_view name) const;

  // Returns what happens to a call, decided by the first matching rule that is not resting; kNone
  // if the call passes. `method` is the full name, "/shoal.v1.ChiefService/ReportSteps"; `bytes` is
  // the size of the request.
  FaultRule Decide(absl::string_view link, absl::string_view method, absl::string_view from,
                   uint64_t bytes);

  // One line of JSON: calls and bytes by link and method, and what each rule has matched and
  // disturbed.
  std::string Counts() const;

 private:
  std::mt19937_64 random_;
  std::vector<FaultRule> rules_;
  struct Traffic {
    uint64_t calls = 0;
    uint64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Traffic> traffic_;  // Keyed by link and method.
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CHAOS_FAULT_RULES_H_
