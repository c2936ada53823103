#include "runtime/checkpoint/model_export.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/checkpoint/checksummed_file.h"
#include "runtime/checkpoint/safetensors.h"

namespace shoal {
namespace {

constexpr char kAverageSlot[] = "average";

SafetensorsHeader HeaderOf(const Checkpoint& checkpoint) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"},
                     {"run_id", checkpoint.manifest().run_id()},
                     {"step", absl::StrCat(checkpoint.manifest().step())}};
  uint64_t offset = 0;
  for (const v1::VariableSpec& variable : checkpoint.manifest().variables()) {
    SafetensorsEntry entry;
    entry.name = variable.name();
    entry.begin = offset;
    uint64_t bytes = sizeof(float);
    for (int64_t dim : variable.shape()) {
      entry.shape.push_back(static_cast<uint64_t>(dim));
      bytes *= static_cast<uint64_t>(dim);
    }
    offset += bytes;
    entry.end = offset;
    header.tensors.push_back(entry);
  }
  return header;
}

}  // namespace

// Slices are numbered through the variables in declared order, so they follow each other in the
// file.
absl::Status ExportModel(FileSystem& file_system, Checkpoint& checkpoint,
                         const std::string& directory, const std::string& name,
                         ExportedValues values) {
  const SafetensorsHeader header = HeaderOf(checkpoint);
  const std::string head = EncodeSafetensorsHeader(header);
  const uint64_t bytes = head.size() + (header.tensors.empty() ? 0 : header.tensors.back().end);
  const std::string unnamed = absl::StrCat(name, ".new");
  RETURN_IF_ERROR(RemoveTree(file_system, JoinPath(directory, unnamed)));
  ASSIGN_OR_RETURN(const std::unique_ptr<ChecksummedFileWriter> file,
                   ChecksummedFileWriter::Create(file_system, directory, unnamed, bytes));
  RETURN_IF_ERROR(file->Append(head));
  std::vector<float> data;
  for (uint32_t slice = 0; slice < checkpoint.slices().size(); ++slice) {
    const bool averaged =
        values == ExportedValues::kAverages && checkpoint.HasSlot(slice, kAverageSlot);
    data.resize(checkpoint.slices()[slice].num_elements);
    RETURN_IF_ERROR(checkpoint.Read(slice, averaged ? kAverageSlot : "", 0, absl::MakeSpan(data)));
    RETURN_IF_ERROR(
        file->Append({reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)}));
  }
  RETURN_IF_ERROR(file->Finish().status());
  RETURN_IF_ERROR(file_system.Rename(JoinPath(directory, unnamed), JoinPath(directory, name)));
  return file_system.SyncDirectory(directory);
}

absl::Status RemoveModelExport(FileSystem& file_system, const std::string& directory) {
  const absl::Status status = file_system.Remove(JoinPath(directory, kModelExportFile));
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace shoal
