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
  // The rows begin so many bytes behind the beginning of the shared memory for rows, and their
  // gradients as many behind that of the memory for gradients of rows (ProgramMemory::rows).
  uint64_t offset = 0;
};

// Reads `count` lists of keys, each of another table, and the end of the message. `*row_bytes` is
// the number of bytes of the memory for rows that are in use; the new rows come behind them, and
// the number rises. InvalidArgument says what is wrong in words that follow the program's name;
// `message` names the message in them.
absl::Status ReadProgramKeys(absl::string_view message, absl::Span<const v1::TableConfig> tables,
                             uint32_t count, MessageReader* reader, uint64_t* row_bytes,
                             std::vector<ProgramKeys>* keys);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_KEYS_H_
