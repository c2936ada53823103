// model.safetensors in a checkpoint's directory: the variables whole and without slots, for other
// programs. It is no part of the checkpoint: the manifest does not name it.
#ifndef SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_
#define SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_

#include <string>

#include "absl/status/status.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint.h"

namespace shoal {

inline constexpr char kModelExportFile[] = "model.safetensors";

enum class ExportedValues {
  kValues,
  kAverages,  // the exponential moving average of each variable that has one, else its value
};

// Writes every variable, float32 and in its declared shape, as `directory`/`name`, atomically and
// durably; a file of that name is replaced. Streams slice by slice.
absl::Status ExportModel(FileSystem& file_system, Checkpoint& checkpoint,
                         const std::string& directory, const std::string& name = kModelExportFile,
                         ExportedValues values = ExportedValues::kValues);

// An absent export is fine.
absl::Status RemoveModelExport(FileSystem& file_system, const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_MODEL_EXPORT_H_
