#ifndef SHOAL_CHIEF_SESSION_RECORDS_H_
#define SHOAL_CHIEF_SESSION_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"

#include "chief/evaluation_ledger.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// What a session wants written down, in order.
struct StepLine {  // One applied step, with its evaluation if it is an evaluation version.
  v1::StepReport report;
  std::optional<EvaluationSums> evaluation;
};
// Checkpoints above `version` are void and are removed before what follows is written down. A chief
// that dies in between resumes from one that still has all its lines.
struct CheckpointsVoid {
  uint64_t version = 0;
};
struct RolledBack {  // Lines above `version` are void.
  uint64_t version = 0;
  std::string reason;
  // Checkpoints above the version stay good. ASYNC: only the ps that counts the lines went back.
  // SYNC: the run stops at a checkpoint that it was beyond.
  bool lines_only = false;
};
struct ManifestToWrite {  // Answer with OnManifestWritten.
  std::string directory;
  v1::Manifest manifest;
};
// A cut that comes to no checkpoint; once more for each ps that reports its part later.
struct CutGivenUp {
  std::string directory;
  std::string why;  // names the step; empty where it was said before
};
// A durable checkpoint gets its model.safetensors. Answer with OnExported.
struct ModelExport {
  std::string directory;
  // The ps have written it and it lacks its header and name. Else it is to be made of the shards,
  // unless it is there.
  bool parts_are_written = false;
  absl::Time deadline;  // Of the latter.
};
struct TrainingStarts {  // All ps have loaded.
  StepPlan plan;
  uint64_t last_step = UINT64_MAX;  // at which the run ends, if it is known
};
struct SessionNote {  // For the log.
  std::string text;
  bool is_warning = false;
};
// A task has named a later term than the chief's: the driver reads the run's file TERM, and calls
// Fence if another chief has taken the run over.
struct TermInDoubt {};
using SessionRecord =
    std::variant<StepLine, CheckpointsVoid, RolledBack, ManifestToWrite, CutGivenUp, ModelExport,
                 TrainingStarts, SessionNote, TermInDoubt>;

// A command to one ps. The driver sends it to `address`, once, with a deadline, and hands the
// answer to On...Answer; a command that was not answered is issued again.
struct PsCommand {
  uint32_t ps = 0;
  std::string address;
  uint64_t incarnation =
      0;  // of the ps: the driver puts it into nothing, it names whom the answer is from
  std::variant<v1::LoadSlicesRequest, v1::WithholdBatchRequest, v1::DecideBatchRequest,
               v1::RequestCutRequest, v1::FinishRequest, v1::GetAppliedRequest>
      request;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_RECORDS_H_
