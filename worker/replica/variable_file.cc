#include "worker/replica/variable_file.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/variables/owned_variables.h"

namespace shoal {
namespace {

absl::Status Differs(const std::string& path, const v1::VariableSpec& variable,
                     const std::string& has) {
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": the model has variable ", variable.name(), " [",
      absl::StrJoin(variable.shape(), ","), "], the file ", has, "; use the file of that model"));
}

absl::Status CheckEntry(const std::string& path, const v1::VariableSpec& variable,
                        const SafetensorsEntry& entry) {
  const bool same = std::equal(variable.shape().begin(), variable.shape().end(),
                               entry.shape.begin(), entry.shape.end(),
                               [](int64_t a, uint64_t b) { return static_cast<uint64_t>(a) == b; });
  if (!same) {
    return Differs(path, variable, absl::StrCat("[", absl::StrJoin(entry.shape, ","), "]"));
  }
  return entry.dtype == "F32" ? absl::OkStatus() : Differs(path, variable, entry.dtype);
}

}  // namespace

absl::Status WriteVariableFile(FileSystem& file_system, const std::string& path,
                               const OwnedVariables& variables) {
  SafetensorsHeader header;
  uint64_t offset = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    SafetensorsEntry entry;
    entry.name = variables.spec(v).name();
    entry.shape.assign(variables.spec(v).shape().begin(), variables.spec(v).shape().end());
    entry.begin = offset;
    offset += variables.value(v).size() * sizeof(float);
    entry.end = offset;
    header.tensors.push_back(std::move(entry));
  }
  std::string bytes = EncodeSafetensorsHeader(header);
  bytes.reserve(bytes.size() + offset);
  for (size_t v = 0; v < variables.size(); ++v) {
    const absl::Span<const float> value = variables.value(v);
    bytes.append(reinterpret_cast<const char*>(value.data()), value.size() * sizeof(float));
  }
  return WriteAtomically(file_system, path, bytes);
}

absl::Status ReadVariableFile(FileSystem& file_system, const std::string& path,
                              OwnedVariables* variables) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, file_system.OpenForRead(path));
  uint64_t data_begin = 0;
  ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadSafetensorsHeader(*file, path, &data_begin));
  absl::flat_hash_map<std::string, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& entry : header.tensors) by_name[entry.name] = &entry;
  std::vector<std::vector<float>> values;
  for (size_t v = 0; v < variables->size(); ++v) {
    const v1::VariableSpec& spec = variables->spec(v);
    const auto found = by_name.find(spec.name());
    if (found == by_name.end()) return Differs(path, spec, "none of that name");
    RETURN_IF_ERROR(CheckEntry(path, spec, *found->second));
    std::vector<float>& value = values.emplace_back(variables->value(v).size());
    const size_t bytes = value.size() * sizeof(float);
    ASSIGN_OR_RETURN(const size_t read, file->Read(data_begin + found->second->begin,
                                                   {reinterpret_cast<char*>(value.data()), bytes}));
    if (read != bytes) return absl::DataLossError(absl::StrCat(path, ": is truncated"));
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": has ", by_name.begin()->first,
                                                      ", which the model has not; use the file of "
                                                      "that model"));
  }
  for (size_t v = 0; v < values.size(); ++v) variables->SetValue(v, values[v]);
  return absl::OkStatus();
}

}  // namespace shoal
