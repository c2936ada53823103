#include "runtime/config/given_flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

// Returns the path of the field that a flag sets; "" if it sets something else.
absl::string_view PathOf(const GivenFlag& flag) {
  if (flag.spec->name != absl::string_view("set")) return flag.spec->field;
  return absl::string_view(flag.value).substr(0, flag.value.find('='));
}

// Returns the flag as the user wrote it.
std::string Written(const GivenFlag& flag) {
  return flag.spec->name == absl::string_view("set") ? absl::StrCat("--set ", PathOf(flag))
                                                     : absl::StrCat(flag.label(), "=", flag.value);
}

// Returns the last flag that sets the field; null if there is none.
const GivenFlag* FindGiven(const std::vector<GivenFlag>& flags, absl::string_view path) {
  const GivenFlag* found = nullptr;
  for (const GivenFlag& flag : flags) {
    if (PathOf(flag) == path) found = &flag;
  }
  return found;
}

// Returns the flag of this name; null if it is not given.
const GivenFlag* FindNamed(const std::vector<GivenFlag>& flags, absl::string_view name) {
  const auto found = std::find_if(flags.begin(), flags.end(), [name](const GivenFlag& flag) {
    return flag.spec->name == name;
  });
  return found == flags.end() ? nullptr : &*found;
}

// Returns the update rule that a flag selects; "" if it selects none.
std::string RuleOf(const GivenFlag& flag) {
  if (flag.spec->name == absl::string_view("optimizer")) {
    return flag.value == "nesterov" ? "momentum" : flag.value;
  }
  const std::vector<std::string> parts = absl::StrSplit(PathOf(flag), '.');
  if (parts.size() < 2 || parts[0] != "optimizer") return "";
  const std::vector<std::string>& known = KnownOptimizers();
  return std::find(known.begin(), known.end(), parts[1]) == known.end() ? "" : parts[1];
}

// Two flags set the batch size in different ways. The one that is given replaces the other one in
// the run file.
absl::Status ReconcileBatchSize(const std::vector<GivenFlag>& flags, v1::RunConfig* run) {
  const GivenFlag* of_clone = FindGiven(flags, "batch_size");
  if (of_clone == nullptr || run->replica_batch_size() == 0) return absl::OkStatus();
  const GivenFlag* of_replica = FindGiven(flags, "replica_batch_size");
  if (of_replica == nullptr) {
    run->clear_replica_batch_size();
    return absl::OkStatus();
  }
  return InvalidField(Written(*of_clone),
                      absl::StrCat("contradicts ", Written(*of_replica),
                                   ", which takes its place; drop one of them"));
}

}  // namespace

absl::Status CheckContradictions(const std::vector<GivenFlag>& flags) {
  std::vector<absl::string_view> seen;
  const GivenFlag* rule = nullptr;
  for (const GivenFlag& flag : flags) {
    const absl::string_view name = flag.spec->name;
    if (name != "set") {
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        return InvalidField(flag.label(), "is given twice; give it once");
      }
      seen.push_back(name);
    }
    if (RuleOf(flag).empty()) continue;
    if (rule != nullptr && RuleOf(*rule) != RuleOf(flag)) {
      return InvalidField(Written(flag),
                          absl::StrCat("contradicts ", Written(*rule),
                                       "; a run has one optimizer, drop one of them"));
    }
    rule = &flag;
  }
  return absl::OkStatus();
}

absl::Status ApplyConsequences(const std::vector<GivenFlag>& flags, const v1::RunConfig& file,
                               v1::RunConfig* run) {
  RETURN_IF_ERROR(ReconcileBatchSize(flags, run));
  const GivenFlag* replicas = FindGiven(flags, "sync.replicas_to_aggregate");
  if (replicas != nullptr && run->sync().replicas_to_aggregate() > 0 && !IsSynchronous(*run)) {
    return InvalidField(
        Written(*replicas),
        "has no meaning with --nosync_replicas, which applies every batch by itself; drop "
        "one of them");
  }
  const std::string rule = OptimizerName(file.optimizer());
  for (const GivenFlag& flag : flags) {
    const bool selects = flag.spec->name == absl::string_view("optimizer");
    if (rule.empty() || selects || RuleOf(flag).empty() || RuleOf(flag) == rule) continue;
    if (FindNamed(flags, "optimizer") != nullptr) continue;
    return InvalidField(
        Written(flag), absl::StrCat("the run file's optimizer is ", rule, "; set a field of that, ",
                                    "or add --optimizer=", RuleOf(flag), " to replace it"));
  }
  // Another rule has another learning rate.
  if (!rule.empty() && OptimizerName(run->optimizer()) != rule &&
      FindGiven(flags, "optimizer.learning_rate") == nullptr) {
    run->mutable_optimizer()->clear_learning_rate();
  }
  // A worker program has a model of its own: the file's, and its name, are then of no use.
  const bool model_given = std::any_of(flags.begin(), flags.end(), [](const GivenFlag& flag) {
    return PathOf(flag) == "model" || absl::StartsWith(PathOf(flag), "model.");
  });
  if (FindGiven(flags, "deployment.worker_binary") != nullptr && !model_given) {
    run->clear_model();
    if (FindGiven(flags, "name") == nullptr && file.deployment().worker_binary().empty()) {
      run->clear_name();
    }
  }
  // The file's model and data stay, and validation refuses them beside a compute program.
  if (FindGiven(flags, "program.file") != nullptr && FindGiven(flags, "name") == nullptr &&
      file.program().file().empty()) {
    run->clear_name();
  }
  // The file's name is that of a run of its own model.
  if (run->model().name() != file.model().name() && FindGiven(flags, "name") == nullptr) {
    run->clear_name();
  }
  return absl::OkStatus();
}

}  // namespace shoal
