#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/little_endian.h"

namespace shoal {
namespace {

using Json = nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr uint64_t kAlignment = 64;

std::string ToJson(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    absl::StrAppend(&json, "\"", kMetadata, "\":{");
    for (const auto& [key, value] : header.metadata) {
      if (json.back() != '{') json.push_back(',');
      absl::StrAppend(&json, JsonString(key), ":", JsonString(value));
    }
    json.push_back('}');
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    if (json.back() != '{') json.push_back(',');
    absl::StrAppend(&json, JsonString(entry.name), ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[");
    for (size_t k = 0; k < entry.shape.size(); ++k) {
      absl::StrAppend(&json, k == 0 ? "" : ",", entry.shape[k]);
    }
    absl::StrAppend(&json, "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  return json + "}";
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("safetensors header: ", what));
}

// Parses an object, and refuses repeated keys at any depth.
absl::Status ParseObject(absl::string_view text, Json* json) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !keys.back().insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  *json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (!json->is_object()) return Malformed("is not a JSON object");
  if (!twice.empty()) return Malformed(absl::StrCat("key \"", twice, "\" is there twice"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ReadNumbers(const Json& json, absl::string_view field) {
  const bool is_list = json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& n) {
                         return n.is_number_unsigned();
                       });
  if (!is_list) {
    return Malformed(absl::StrCat(field, " must be a list of whole numbers below 2^64"));
  }
  return json.get<std::vector<uint64_t>>();
}

absl::Status TakeMetadata(const Json& json, std::map<std::string, std::string>* metadata) {
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return Malformed(absl::StrCat("metadata \"", key, "\" must be text"));
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status TakeEntry(const Json& json, SafetensorsEntry* entry) {
  for (const auto& [key, value] : json.items()) {
    if (key == "dtype" && value.is_string()) {
      entry->dtype = value.get<std::string>();
    } else if (key == "shape") {
      ASSIGN_OR_RETURN(entry->shape, ReadNumbers(value, key));
    } else if (key == "data_offsets") {
      ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, ReadNumbers(value, key));
      if (offsets.size() != 2) return Malformed("expected two data_offsets");
      entry->begin = offsets[0];
      entry->end = offsets[1];
    } else {
      return Malformed(absl::StrCat("unknown key \"", key, "\""));
    }
  }
  if (json.size() == 3) return absl::OkStatus();
  return Malformed(
      absl::StrCat("tensor \"", entry->name, "\" needs dtype, shape and data_offsets"));
}

// Checks that a tensor has as many bytes as its shape requires.
absl::Status CheckSize(const SafetensorsEntry& entry) {
  uint64_t bytes = SafetensorsElementBytes(entry.dtype);
  bool fits = bytes > 0 && entry.begin <= entry.end;
  for (uint64_t dim : entry.shape) {
    fits = fits && (dim == 0 || bytes <= UINT64_MAX / dim);
    bytes *= dim;
  }
  if (fits && bytes == entry.end - entry.begin) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("safetensors header: tensor \"", entry.name, "\" of ",
                                          entry.dtype, " has bytes [", entry.begin, ", ", entry.end,
                                          "), which is not its shape's size"));
}

absl::Status CheckPlacement(const std::vector<SafetensorsEntry>& tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : tensors) {
    RETURN_IF_ERROR(CheckSize(entry));
    if (entry.begin != end) {
      return absl::DataLossError(absl::StrCat("safetensors header: tensor \"", entry.name,
                                              "\" begins at ", entry.begin, ", expected ", end));
    }
    end = entry.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("safetensors header: tensors have ", end, " bytes, the file ", data_bytes));
}

}  // namespace

uint64_t SafetensorsElementBytes(absl::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64" || dtype == "C64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "BOOL" || dtype == "I8" || dtype == "U8" || absl::StartsWith(dtype, "F8_")) return 1;
  return 0;
}

std::string EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  std::string json = ToJson(header);
  json.append((kAlignment - (json.size() + 8) % kAlignment) % kAlignment, ' ');
  std::string bytes(8, '\0');
  StoreLittleEndian(uint64_t{json.size()}, &bytes[0]);
  return bytes + json;
}

absl::StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(absl::string_view json,
                                                          uint64_t data_bytes) {
  Json object;
  RETURN_IF_ERROR(ParseObject(json, &object));
  SafetensorsHeader header;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) return Malformed(absl::StrCat("\"", key, "\" must be an object"));
    if (key == kMetadata) {
      RETURN_IF_ERROR(TakeMetadata(value, &header.metadata));
      continue;
    }
    header.tensors.emplace_back();
    header.tensors.back().name = key;
    RETURN_IF_ERROR(TakeEntry(value, &header.tensors.back()));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  RETURN_IF_ERROR(CheckPlacement(header.tensors, data_bytes));
  return header;
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const ReadableFile& file,
                                                        absl::string_view path,
                                                        uint64_t* data_begin) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file.Size());
  char length_bytes[8] = {};
  ASSIGN_OR_RETURN(const size_t read, file.Read(0, absl::MakeSpan(length_bytes)));
  const uint64_t length = LoadLittleEndian<uint64_t>(length_bytes);
  if (read < 8 || length > kMostSafetensorsHeaderBytes || length > file_bytes - 8) {
    return absl::DataLossError(absl::StrCat(path, ": no safetensors header, or a truncated file"));
  }
  std::string json(length, '\0');
  ASSIGN_OR_RETURN(const size_t json_read, file.Read(8, absl::MakeSpan(&json[0], length)));
  if (json_read < length) return absl::DataLossError(absl::StrCat(path, ": truncated"));
  *data_begin = 8 + length;
  absl::StatusOr<SafetensorsHeader> header =
      DecodeSafetensorsHeader(json, file_bytes - *data_begin);
  if (header.ok()) return header;
  return absl::DataLossError(absl::StrCat(path, ": ", header.status().message()));
}

}  // namespace shoal
