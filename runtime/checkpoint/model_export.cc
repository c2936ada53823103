#include "runtime/checkpoint/model_export.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "runtime/checkpoint/checksummed_file.h"
#include "runtime/checkpoint/safetensors.h"

namespace shoal {

ModelExportLayout::ModelExportLayout(absl::Span<const v1::VariableSpec> variables, uint64_t step) {
  SafetensorsHeader header;
  header.metadata = {{"step", absl::StrCat(step)}};
  uint64_t offset = 0;
  std::vector<std::string> tables;
  for (const v1::VariableSpec& variable : variables) {
    if (variable.has_table()) {
      tables.push_back(variable.name());
      begin_.push_back(0);
      continue;
    }
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
    begin_.push_back(entry.begin);
  }
  if (!tables.empty()) header.metadata["tables_left_out"] = absl::StrJoin(tables, ",");
  header_ = EncodeSafetensorsHeader(header);
  for (uint64_t& begin : begin_) begin += header_.size();
  file_bytes_ = header_.size() + offset;
}

ModelExportLayout::ModelExportLayout(const v1::Manifest& manifest)
    : ModelExportLayout(
          std::vector<v1::VariableSpec>(manifest.variables().begin(), manifest.variables().end()),
          manifest.step()) {}

// Slices are numbered through the variables in declared order, so they follow each other in the
// file.
absl::Status ExportModel(FileSystem& file_system, Checkpoint& checkpoint,
                         const std::string& directory, const std::string& name,
                         VariableValues values, const std::function<bool()>& is_late) {
  const ModelExportLayout layout(checkpoint.manifest());
  const std::string unnamed = absl::StrCat(name, ".new");
  RETURN_IF_ERROR(RemoveTree(file_system, JoinPath(directory, unnamed)));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChecksummedFileWriter> file,
      ChecksummedFileWriter::Create(file_system, directory, unnamed, layout.file_bytes()));
  RETURN_IF_ERROR(file->Append(layout.header()));
  std::vector<float> data;
  for (uint32_t slice = 0; slice < checkpoint.slices().size(); ++slice) {
    if (is_late != nullptr && is_late()) {
      return absl::DeadlineExceededError(absl::StrCat(name, " takes too long"));
    }
    if (checkpoint.slices()[slice].is_bucket) continue;
    data.resize(checkpoint.slices()[slice].num_elements);
    RETURN_IF_ERROR(checkpoint.ReadValues(slice, values, absl::MakeSpan(data)));
    RETURN_IF_ERROR(
        file->Append({reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)}));
  }
  RETURN_IF_ERROR(file->Finish().status());
  RETURN_IF_ERROR(file_system.Rename(JoinPath(directory, unnamed), JoinPath(directory, name)));
  return file_system.SyncDirectory(directory);
}

absl::Status WriteExportPart(FileSystem& file_system, const std::string& directory,
                             absl::Span<const ExportedSlice> slices,
                             const std::function<bool()>& should_stop) {
  const std::string path = JoinPath(directory, kPartialExportFile);
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, file_system.OpenForUpdate(path));
  for (const ExportedSlice& slice : slices) {
    if (should_stop()) return absl::CancelledError("there is something more urgent to write");
    RETURN_IF_ERROR(file->WriteAt(slice.offset, {reinterpret_cast<const char*>(slice.values.data()),
                                                 slice.values.size() * sizeof(float)}));
  }
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::Status FinishExport(FileSystem& file_system, const std::string& directory,
                          const ModelExportLayout& layout) {
  const std::string path = JoinPath(directory, kPartialExportFile);
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, file_system.OpenForUpdate(path));
    RETURN_IF_ERROR(file->WriteAt(0, layout.header()));
    RETURN_IF_ERROR(file->Sync());
    RETURN_IF_ERROR(file->Close());
  }
  ASSIGN_OR_RETURN(const FileInfo info, file_system.GetInfo(path));
  if (info.size != layout.file_bytes()) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", info.size, " bytes, not ", layout.file_bytes()));
  }
  RETURN_IF_ERROR(file_system.Rename(path, JoinPath(directory, kModelExportFile)));
  return file_system.SyncDirectory(directory);
}

absl::Status RemoveModelExport(FileSystem& file_system, const std::string& directory) {
  for (const char* name : {kModelExportFile, kPartialExportFile}) {
    const absl::Status status = file_system.Remove(JoinPath(directory, name));
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return absl::OkStatus();
}

}  // namespace shoal
