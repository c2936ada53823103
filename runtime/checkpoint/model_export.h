// model.safetensors in a checkpoint's directory: whole variables without slots, for other programs.
// It is not part of the checkpoint, and the manifest does not name it.
#ifndef SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_
#define SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"

namespace shoal {

inline constexpr char kModelExportFile[] = "model.safetensors";
// The name of the file while ps write their parts.
inline constexpr char kPartialExportFile[] = "model.safetensors.partial";

// The layout of the file: the header, then the variables in declared order as float32. Tables are
// left out, because they may not fit into the memory of a program that loads the file; the header's
// metadata names them, and `shoal export --tables` writes their rows. The layout depends only on
// data that the manifest will contain, so the ps know it before the manifest exists. It does not
// depend on the run's id, so that runs with the same values export the same bytes.
class ModelExportLayout {
 public:
  ModelExportLayout(absl::Span<const v1::VariableSpec> variables, uint64_t step);
  explicit ModelExportLayout(const v1::Manifest& manifest);

  const std::string& header() const { return header_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // Returns the file offset of an element of a variable, both numbered in order. Not for tables.
  uint64_t OffsetOf(uint32_t variable, uint64_t element) const {
    return begin_[variable] + element * sizeof(float);
  }

 private:
  std::string header_;
  std::vector<uint64_t> begin_;  // indexed by variable
  uint64_t file_bytes_ = 0;
};

// Writes every variable that is not a table, as float32 in its declared shape, to
// `directory`/`name`, atomically and durably, replacing a file of that name. Streams slice by
// slice. Returns DEADLINE_EXCEEDED as soon as `is_late`, which may be null and is called before
// every slice, returns true.
absl::Status ExportModel(FileSystem& file_system, Checkpoint& checkpoint,
                         const std::string& directory, const std::string& name = kModelExportFile,
                         VariableValues values = VariableValues::kCurrent,
                         const std::function<bool()>& is_late = nullptr);

// The functions below write the same file from values that several ps have in memory. Each ps
// writes its part durably. Order and repetitions do not matter, because the same bytes are written
// to the same offsets.
struct ExportedSlice {
  uint64_t offset = 0;  // ModelExportLayout::OffsetOf
  absl::Span<const float> values;
};
// Writes one ps's part. Returns CANCELLED as soon as `should_stop`, which is called before every
// slice, returns true.
absl::Status WriteExportPart(FileSystem& file_system, const std::string& directory,
                             absl::Span<const ExportedSlice> slices,
                             const std::function<bool()>& should_stop);
// Writes the header and renames the file, after all parts were written. Returns DATA_LOSS if they
// were not.
absl::Status FinishExport(FileSystem& file_system, const std::string& directory,
                          const ModelExportLayout& layout);

// Removes a complete or partial export, if there is one.
absl::Status RemoveModelExport(FileSystem& file_system, const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_
