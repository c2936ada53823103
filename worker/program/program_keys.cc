#include "worker/program/program_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "worker/program/program_layout.h"

namespace shoal {
namespace {

absl::Status ReadTable(absl::string_view message, absl::Span<const v1::TableConfig> tables,
                       MessageReader* reader, uint64_t* row_bytes, std::vector<ProgramKeys>* all) {
  ProgramKeys found;
  found.table = reader->U32();
  const uint64_t count = reader->U64();
  if (!reader->ok() || found.table >= tables.size()) {
    return absl::InvalidArgumentError(absl::StrCat("sent a ", message,
                                                   " that is damaged or of table ", found.table,
                                                   ", but it has only ", tables.size()));
  }
  const v1::TableConfig& table = tables[found.table];
  for (const ProgramKeys& other : *all) {
    if (other.table != found.table) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sent a ", message, " with table ", table.name(), " twice"));
  }
  if (count == 0 || count > reader->remaining() / sizeof(uint64_t)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sent a ", message, " of ", count, " keys of table ", table.name(),
        ", but the message has room for 1 to ", reader->remaining() / sizeof(uint64_t)));
  }
  found.keys.resize(count);
  for (uint64_t k = 0; k < count; ++k) {
    found.keys[k] = reader->U64();
    if (k == 0 || found.keys[k - 1] < found.keys[k]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("sent a ", message, " with key ", found.keys[k], " of table ", table.name(),
                     " after key ", found.keys[k - 1], "; keys must rise, and each may come once"));
  }
  found.offset = *row_bytes;
  *row_bytes += AlignedArray(count * table.dim() * sizeof(float));
  if (*row_bytes > ProgramLayout::kRowBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "asks for ", *row_bytes, " bytes of rows in one batch; the request for ", count,
        " rows of table ", table.name(), " exceeds the limit of ", ProgramLayout::kRowBytes,
        ": make batch_size or data.evaluation_block smaller"));
  }
  all->push_back(std::move(found));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadProgramKeys(absl::string_view message, absl::Span<const v1::TableConfig> tables,
                             uint32_t count, MessageReader* reader, uint64_t* row_bytes,
                             std::vector<ProgramKeys>* keys) {
  keys->clear();
  for (uint32_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(ReadTable(message, tables, reader, row_bytes, keys));
  }
  if (reader->is_at_end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("sent a ", message, " with bytes behind its end"));
}

}  // namespace shoal
