#ifndef SHOAL_CHIEF_SESSION_RECORDS_H_
#define SHOAL_CHIEF_SESSION_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "chief/evaluation_ledger.h"
#include "proto/v1/chief_service.pb.h"

namespace shoal {

// What a session wants written down, in order.
struct StepLine {  // One applied step, with its evaluation if it is an evaluation version.
  v1::StepReport report;
  std::optional<EvaluationSums> evaluation;
};
struct RolledBack {  // Lines above `version` are void.
  uint64_t version = 0;
  std::string reason;
  // ASYNC: only the ps that counts the lines went back; checkpoints above the version stay good.
  bool lines_only = false;
};
struct ManifestToWrite {  // Answer with OnManifestWritten.
  std::string directory;
  v1::Manifest manifest;
};
struct TrainingStarts {};  // All ps have loaded.
struct SessionNote {       // For the log.
  std::string text;
};
using SessionRecord =
    std::variant<StepLine, RolledBack, ManifestToWrite, TrainingStarts, SessionNote>;

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_RECORDS_H_
