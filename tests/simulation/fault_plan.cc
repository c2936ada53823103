#include "tests/simulation/fault_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

constexpr double kFaultSeconds = 25;  // Faults begin before this.

struct KindFacts {
  const char* name;
  double weight;
};
constexpr KindFacts kKinds[PlannedFault::kNumKinds] = {
    {"worker killed", 3},
    {"ps killed", 2},
    {"chief killed", 1},
    {"all killed", 0.4},
    {"worker paused", 1},
    {"ps paused", 1},
    {"chief paused", 1},
    {"partition", 1},
    {"cut one way", 1},
    {"cut both ways", 1},
    {"loss", 2},
    {"wrong answers", 2.5},
    {"slow disk", 1},
    {"failing disk", 1},
    {"checkpoint damaged", 0.5},
    {"stop requested", 0.3},
    {"checkpoint requested", 0.7},
    {"term forged", 0},  // Drawn by itself.
};

// False: nothing is allowed but what is drawn by itself.
bool HasKind(const std::vector<bool>& allowed) {
  for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
    if (allowed[static_cast<size_t>(kind)] && kKinds[kind].weight > 0) return true;
  }
  return false;
}

PlannedFault::Kind DrawKind(SeededRandom* random, const std::vector<bool>& allowed) {
  double sum = 0;
  for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
    if (allowed[static_cast<size_t>(kind)]) sum += kKinds[kind].weight;
  }
  double left = random->Uniform(0, sum);
  PlannedFault::Kind last = PlannedFault::kNumKinds;
  for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
    if (!allowed[static_cast<size_t>(kind)] || kKinds[kind].weight == 0) continue;
    last = static_cast<PlannedFault::Kind>(kind);
    left -= kKinds[kind].weight;
    if (left <= 0) break;
  }
  return last;
}

absl::Status DrawError(SeededRandom* random) {
  switch (random->Below(9)) {
    case 0:
      return absl::InternalError("stream reset by a proxy");
    case 1:
      return absl::UnknownError("a proxy has no words for it");
    case 2:
      return absl::ResourceExhaustedError("a proxy's quota is used up");
    case 3:
      return absl::PermissionDeniedError("a proxy does not know this certificate yet");
    case 4:
      return absl::AbortedError("a proxy has aborted the stream");
    case 5:
      return absl::FailedPreconditionError("a proxy was not ready");
    case 6:
      return absl::InvalidArgumentError("a proxy does not understand the request");
    case 7:
      return absl::UnavailableError("a proxy does not reach the task");
    default:
      return absl::UnimplementedError("a proxy does not know this method");
  }
}

std::string DrawMethod(SeededRandom* random) {
  static const char* const kMethods[] = {"",
                                         "ReportSteps",
                                         "ReportShard",
                                         "LoadSlices",
                                         "Heartbeat",
                                         "RegisterTask",
                                         "Exchange",
                                         "RequestCut",
                                         "ReportEvaluation",
                                         "ReportBadBatch",
                                         "LeaseBatches",
                                         "ReportNorms"};
  return kMethods[random->Below(12)];
}

}  // namespace

std::vector<bool> AllFaults() {
  return std::vector<bool>(static_cast<size_t>(PlannedFault::kNumKinds), true);
}

const char* NameOf(PlannedFault::Kind kind) { return kKinds[kind].name; }

std::string PlannedFault::ToString() const {
  std::string text = absl::StrFormat("%7.3f s: %s", at, NameOf(kind));
  if (!task.empty()) absl::StrAppend(&text, " ", task);
  if (!other.empty()) absl::StrAppend(&text, " -> ", other);
  if (!group.empty()) absl::StrAppend(&text, " ", absl::StrJoin(group, ","), " | the others");
  if (seconds > 0) absl::StrAppendFormat(&text, " for %.3f s", seconds);
  if (rate > 0) absl::StrAppendFormat(&text, " rate %.3f", rate);
  if (!status.ok()) {
    absl::StrAppend(&text, " ", method.empty() ? "any call" : method, ": ", status.ToString());
  }
  return text;
}

std::string FaultPlan::ToString() const {
  std::string text;
  for (const PlannedFault& fault : faults) absl::StrAppend(&text, fault.ToString(), "\n");
  return text;
}

FaultPlan DrawFaults(SeededRandom* random, uint32_t num_ps, uint32_t num_workers,
                     const std::vector<bool>& allowed) {
  std::vector<std::string> tasks = {"chief"};
  for (uint32_t i = 0; i < num_ps; ++i) tasks.push_back(absl::StrCat("ps/", i));
  for (uint32_t i = 0; i < num_workers; ++i) tasks.push_back(absl::StrCat("worker/", i));
  const auto ps = [&] { return absl::StrCat("ps/", random->Below(num_ps)); };
  const auto worker = [&] { return absl::StrCat("worker/", random->Below(num_workers)); };
  const auto any = [&] { return tasks[random->Below(tasks.size())]; };

  FaultPlan plan;
  // One run in eight has a single fault: how long recovery takes is measured there.
  const uint64_t count = random->Below(8) == 0 ? 1 : random->Below(8);
  for (uint64_t i = 0; i < count && HasKind(allowed); ++i) {
    PlannedFault fault;
    fault.kind = DrawKind(random, allowed);
    fault.at = random->Uniform(0, kFaultSeconds);
    // Some are shorter than a lease, some as long, some much longer.
    const double kLengths[] = {1, 3.5, 12, 40};
    const double length = random->Uniform(0.2, kLengths[random->Below(4)]);
    switch (fault.kind) {
      case PlannedFault::kKillWorker:
        fault.task = worker();
        break;
      case PlannedFault::kKillPs:
        fault.task = ps();
        break;
      case PlannedFault::kKillChief:
        fault.task = "chief";
        break;
      case PlannedFault::kPauseWorker:
        fault.task = worker();
        fault.seconds = length;
        break;
      case PlannedFault::kPausePs:
        fault.task = ps();
        fault.seconds = length;
        break;
      case PlannedFault::kPauseChief:
        fault.task = "chief";
        fault.seconds = length;
        break;
      case PlannedFault::kPartition:
        for (const std::string& task : tasks) {
          if (random->Chance(0.5)) fault.group.push_back(task);
        }
        fault.seconds = length;
        break;
      case PlannedFault::kCutOneWay:
      case PlannedFault::kCutBothWays:
        fault.task = any();
        do {
          fault.other = any();
        } while (fault.other == fault.task);
        fault.seconds = length;
        break;
      case PlannedFault::kLoss:
        fault.rate = random->Uniform(0.01, 0.25);
        fault.seconds = length;
        break;
      case PlannedFault::kWrongAnswers:
        fault.rate = random->Chance(0.3) ? 1 : random->Uniform(0.02, 0.5);
        fault.status = DrawError(random);
        fault.method = DrawMethod(random);
        fault.seconds = std::min(length, 8.0);  // Less than a task's patience with its chief.
        break;
      case PlannedFault::kSlowDisk:
        fault.task = random->Chance(0.6) ? ps() : "chief";
        fault.rate = random->Uniform(0.05, 3);  // Seconds that each change takes.
        fault.seconds = length;
        break;
      case PlannedFault::kFailingDisk: {
        fault.task = ps();
        // Taken from the length, so that the other faults of a seed stay what they were.
        const auto digits = static_cast<uint64_t>(length * 1e3);
        if (digits % 3 == 1) fault.task = "chief";
        if (digits / 3 % 4 == 0) fault.rate = static_cast<double>(2 + digits / 12 % 6);
        fault.status = random->Chance(0.5)
                           ? absl::ResourceExhaustedError("no space left on the device")
                           : absl::UnavailableError("input/output error");
        fault.method = "a change on disk";
        fault.seconds = length;
        break;
      }
      default:
        break;
    }
    plan.faults.push_back(std::move(fault));
  }
  if (allowed[PlannedFault::kForgedTerm] && count > 1 && random->Chance(0.1)) {
    PlannedFault fault;
    fault.kind = PlannedFault::kForgedTerm;
    fault.at = random->Uniform(0, kFaultSeconds);
    fault.task = worker();
    plan.faults.push_back(std::move(fault));
  }
  std::sort(plan.faults.begin(), plan.faults.end(),
            [](const PlannedFault& a, const PlannedFault& b) { return a.at < b.at; });
  for (const PlannedFault& fault : plan.faults) {
    plan.end = std::max(plan.end, fault.at + fault.seconds);
  }
  return plan;
}

}  // namespace shoal
