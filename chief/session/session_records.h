#ifndef SHOAL_CHIEF_SESSION_SESSION_RECORDS_H_
#define SHOAL_CHIEF_SESSION_SESSION_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"

#include "chief/ledgers/evaluation_ledger.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// The records of a session: its driver writes them in their order.

// One applied step, with its evaluation if its version is evaluated.
struct StepLine {
  v1::StepReport report;
  std::optional<EvaluationSums> evaluation;
  // The tables, if this line has their figures.
  std::vector<v1::GetRunStatusResponse::Table> tables = {};
};
// Checkpoints above `version` are void, and are removed before later records are written. A chief
// that dies in between resumes from a checkpoint that still has all its lines.
struct CheckpointsVoid {
  uint64_t version = 0;
};
// Lines above `version` are void.
struct RolledBack {
  uint64_t version = 0;
  std::string reason;
  // Lines above the version become void, but checkpoints above it remain valid. ASYNC: only the ps
  // that counts the lines went back. SYNC: the run stops at a checkpoint, and the steps after it
  // are dropped.
  bool lines_only = false;
};
// A manifest to write. The driver answers with OnManifestWritten.
struct ManifestToWrite {
  std::string directory;
  v1::Manifest manifest;
};
// A cut that will not become a checkpoint. The record is repeated for each ps that reports its part
// later.
struct CutGivenUp {
  std::string directory;
  std::string why;  // Names the step; empty if an earlier record has it.
};
// A durable checkpoint that gets its model.safetensors. The driver answers with OnExported.
struct ModelExport {
  std::string directory;
  // True: the ps have written it, and it lacks its header and name. False: the driver makes it of
  // the shards until the deadline, unless it exists.
  bool parts_are_written = false;
  absl::Time deadline;
};
// All ps have loaded, and training starts.
struct TrainingStarts {
  StepPlan plan;
  uint64_t last_step = UINT64_MAX;  // The run ends there, if it is known.
};
// A line for the chief's log.
struct SessionNote {
  enum class Kind {
    kDetail,   // Only the log shows it.
    kEvent,    // The list of events on the page of the run shows it too.
    kTrouble,  // An event that went wrong; the page marks it.
    kSkip,     // A trouble: a batch is skipped. The console shows it too.
  };

  std::string text;
  Kind kind = Kind::kDetail;
  bool is_warning = false;  // The log shows it as a warning.
  // If the last event that has a subject has the same one, this text replaces its text on the page.
  // Empty: the event has no subject.
  std::string subject;
};
// A task has named a later term than the chief's: the driver reads the run's file TERM, and calls
// Fence if another chief has taken the run over.
struct TermInDoubt {};
// The program of a worker gave other initial values than those that the run begins with. Both are
// fingerprints, which name the files of the values (InitialValuesPath).
struct InitialValuesDiffer {
  uint32_t worker = 0;
  uint64_t given = 0;
  uint64_t in_use = 0;
};
using SessionRecord =
    std::variant<StepLine, CheckpointsVoid, RolledBack, ManifestToWrite, CutGivenUp, ModelExport,
                 TrainingStarts, SessionNote, TermInDoubt, InitialValuesDiffer>;

// A command to one ps. The driver sends it to `address`, once, with a deadline, and passes the
// answer to TrainingSession::OnAnswer; a command that was not answered is issued again.
struct PsCommand {
  uint32_t ps = 0;
  std::string address;
  uint64_t incarnation = 0;  // Identifies the process that answers. The driver does not send it.
  std::variant<v1::LoadSlicesRequest, v1::WithholdBatchRequest, v1::DecideBatchRequest,
               v1::RequestCutRequest, v1::FinishRequest, v1::GetAppliedRequest>
      request;
};
// The answer of a ps to a PsCommand, in the order of PsCommand::request.
using PsResponse =
    std::variant<v1::LoadSlicesResponse, v1::WithholdBatchResponse, v1::DecideBatchResponse,
                 v1::RequestCutResponse, v1::FinishResponse, v1::GetAppliedResponse>;

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_RECORDS_H_
