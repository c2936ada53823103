#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_KEYS_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_KEYS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "proto/v1/run_config.pb.h"
#include "worker/program/program_messages.h"

namespace shoal {

// The rows of one table that a program names in a LOOK_UP or LOOK_AHEAD.
struct ProgramKeys {
  uint32_t table = 0;          // Its number in ProgramDeclaration::tables.
  std::vector<uint64_t> keys;  // Rising; at least one.
  uint64_t offset = 0;         // The beginning of the rows, and of their gradients, in the area.
};

// Reads `count` lists of keys, each of another table, and the end of the message. `*row_bytes` are
// the bytes of the area that are in use; the rows come behind them. InvalidArgument says what is
// wrong in words that follow the program's name; `message` names the message in them.
absl::Status ReadProgramKeys(absl::string_view message, absl::Span<const v1::TableConfig> tables,
                             uint32_t count, MessageReader* reader, uint64_t* row_bytes,
                             std::vector<ProgramKeys>* keys);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_KEYS_H_
