// The variables, tables, data, metrics and settings that a compute program declares.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_DECLARATION_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_DECLARATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "proto/v1/metric.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/table_config.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {

struct ProgramDeclaration {
  uint64_t train_examples = 0;
  uint64_t test_examples = 0;
  uint64_t data_fingerprint = 0;  // 0: unknown
  uint32_t announced_ahead = 0;   // The number of announcements that the program wants.
  std::string compute_fingerprint;
  v1::RunConfig settings;                   // Only the fields that a program may set.
  std::vector<v1::MetricSpec> metrics;      // "accuracy" may be one of them.
  std::vector<v1::VariableSpec> variables;  // The tables are not among them.
  std::vector<v1::TableConfig> tables;
};

// Decodes the payload of DECLARE in this version of the protocol. FailedPrecondition names the
// first field that is beyond the limits of docs/compute_program.md.
absl::StatusOr<ProgramDeclaration> DecodeDeclaration(absl::string_view payload, uint32_t version);

// Returns the number of elements of a declared variable.
uint64_t NumElements(const v1::VariableSpec& variable);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_DECLARATION_H_
