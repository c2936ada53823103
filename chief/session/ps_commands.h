#ifndef SHOAL_CHIEF_SESSION_PS_COMMANDS_H_
#define SHOAL_CHIEF_SESSION_PS_COMMANDS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/ledgers/bad_batch_decisions.h"
#include "chief/session/model_exports.h"
#include "chief/session/session_context.h"
#include "chief/session/session_records.h"
#include "proto/v1/parameter_service.pb.h"

namespace shoal {

// Decides which commands to send to the ps: to load, to withhold or decide a batch, to make a cut,
// to finish. The commands follow from the state of the session; each is repeated until the state no
// longer requires it. Not thread-safe.
class PsCommands {
 public:
  // All are borrowed.
  PsCommands(SessionContext* context, const BadBatchDecisions* decisions,
             const ModelExports* exports)
      : context_(*context), decisions_(*decisions), exports_(*exports) {}

  // Returns the commands to send now: new ones, and those that were not answered in time.
  std::vector<PsCommand> Take(absl::Time now);

  // The command did not reach the ps (OnUndelivered), or it is a load that failed and may succeed
  // later (OnLoadFailed). Both make the command due again, if it is still needed then, and sooner
  // than after a lost answer.
  void OnUndelivered(absl::Time now, const PsCommand& command);
  void OnLoadFailed(absl::Time now, const PsCommand& command);

 private:
  class Issue;

  void WantLoads(Issue* issue);
  void WantDecisions(Issue* issue) const;
  void WantCuts(Issue* issue) const;
  void WantFinishes(Issue* issue) const;
  v1::LoadSlicesRequest LoadRequest() const;
  void MakeDue(const PsCommand& command, absl::Time due);

  SessionContext& context_;
  const BadBatchDecisions& decisions_;
  const ModelExports& exports_;
  std::map<std::string, absl::Time> next_due_;  // Keyed by command.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_PS_COMMANDS_H_
