// model.safetensors in a checkpoint's directory: the variables whole and without slots, for other
// programs. It is no part of the checkpoint: the manifest does not name it.
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
// Where ps write their parts, until all are there.
inline constexpr char kPartialExportFile[] = "model.safetensors.partial";

enum class ExportedValues {
  kValues,
  kAverages,  // the exponential moving average of each variable that has one, else its value
};

// Where everything is in the file: the header, then the variables in declared order, float32. It
// follows from what the manifest says, before there is one.
class ModelExportLayout {
 public:
  ModelExportLayout(absl::Span<const v1::VariableSpec> variables, absl::string_view run_id,
                    uint64_t step);
  explicit ModelExportLayout(const v1::Manifest& manifest);

  const std::string& header() const { return header_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // Of an element of a variable, both numbered in order.
  uint64_t OffsetOf(uint32_t variable, uint64_t element) const {
    return begin_[variable] + element * sizeof(float);
  }

 private:
  std::string header_;
  std::vector<uint64_t> begin_;  // By variable.
  uint64_t file_bytes_ = 0;
};

// Writes every variable, float32 and in its declared shape, as `directory`/`name`, atomically and
// durably; a file of that name is replaced. Streams slice by slice. DEADLINE_EXCEEDED when
// `is_late`, which may be null and is asked before every slice, says so.
absl::Status ExportModel(FileSystem& file_system, Checkpoint& checkpoint,
                         const std::string& directory, const std::string& name = kModelExportFile,
                         ExportedValues values = ExportedValues::kValues,
                         const std::function<bool()>& is_late = nullptr);

// The same file of values that several ps have in memory. Each writes its part, durably; any order
// and repetition is fine, since the same bytes go to the same places.
struct ExportedSlice {
  uint64_t offset = 0;  // ModelExportLayout::OffsetOf
  absl::Span<const float> values;
};
// CANCELLED when `should_stop`, which is asked before every slice, says so.
absl::Status WriteExportPart(FileSystem& file_system, const std::string& directory,
                             absl::Span<const ExportedSlice> slices,
                             const std::function<bool()>& should_stop);
// Gives the file its header and its name when all parts are written. DATA_LOSS: they are not.
absl::Status FinishExport(FileSystem& file_system, const std::string& directory,
                          const ModelExportLayout& layout);

// An absent export is fine, a partial one is removed as well.
absl::Status RemoveModelExport(FileSystem& file_system, const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_
