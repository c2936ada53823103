#include "chief/session/full_ps_watch.h"

#include <string>
#include <utility>

#include "absl/status/status.h"

#include "runtime/cluster/task.h"

namespace shoal {

bool FullPsWatch::OnHeartbeat(absl::Time now, const v1::HeartbeatRequest& request) {
  const v1::Identity& sender = request.identity();
  if (!request.has_memory() || ToTaskId(sender.member()).job != Job::kPs) return false;
  TableMemoryLedger& tables = context_.tables;
  tables.OnStep(now, context_.mode->newest_step());
  const Member* const member = context_.membership.Find(ToTaskId(sender.member()));
  tables.OnReport(now, sender.member().index(), sender.lineage(), request.memory(),
                  member == nullptr ? "" : member->host);
  const std::string warning = tables.Warning();
  if (!warning.empty() && !std::exchange(has_warned_, true)) context_.log.Warn(warning);
  const RunPhases& phases = context_.phases;
  if (!phases.is_running() || phases.is_interrupted() || context_.mode->IsNearEnd()) return false;
  const absl::Status full = tables.WhyFull();
  if (full.ok()) return false;
  context_.EndAfterCheckpoint(std::string(full.message()), full.code(), /*unless_trained=*/true);
  return true;
}

}  // namespace shoal
