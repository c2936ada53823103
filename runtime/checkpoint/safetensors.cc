#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/little_endian.h"

namespace shoal {
namespace {

constexpr char kMetadata[] = "__metadata__";
constexpr uint64_t kMostHeaderBytes = 100000000;  // as the reference implementation
constexpr uint64_t kAlignment = 64;

void AppendString(absl::string_view text, std::string* json) {
  json->push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') json->push_back('\\');
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(json, "\\u%04x", c);
    } else {
      json->push_back(c);
    }
  }
  json->push_back('"');
}

std::string ToJson(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    absl::StrAppend(&json, "\"", kMetadata, "\":{");
    for (const auto& [key, value] : header.metadata) {
      if (json.back() != '{') json.push_back(',');
      AppendString(key, &json);
      json.push_back(':');
      AppendString(value, &json);
    }
    json.push_back('}');
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    if (json.back() != '{') json.push_back(',');
    AppendString(entry.name, &json);
    absl::StrAppend(&json, ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[");
    for (size_t k = 0; k < entry.shape.size(); ++k) {
      absl::StrAppend(&json, k == 0 ? "" : ",", entry.shape[k]);
    }
    absl::StrAppend(&json, "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  return json + "}";
}

absl::Status Malformed(absl::string_view what, size_t position) {
  return absl::DataLossError(
      absl::StrCat("safetensors header: expected ", what, " at byte ", position));
}

// Reads the little of JSON that a header has.
class JsonCursor {
 public:
  explicit JsonCursor(absl::string_view text) : text_(text) {}

  // The next character if it is this one; spaces before it do not count.
  bool TryTake(char c) {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status Take(char c) {
    return TryTake(c) ? absl::OkStatus()
                      : Malformed(absl::StrCat("'", std::string(1, c), "'"), at_);
  }

  bool AtEnd() {
    TryTake('\0');
    return at_ == text_.size();
  }

  absl::StatusOr<std::string> String() {
    RETURN_IF_ERROR(Take('"'));
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20)
        return Malformed("no control character", at_);
      if (text_[at_] == '\\') {
        RETURN_IF_ERROR(Escape(&result));
      } else {
        result.push_back(text_[at_++]);
      }
    }
    RETURN_IF_ERROR(Take('"'));
    return result;
  }

  absl::StatusOr<uint64_t> Unsigned() {
    TryTake('\0');
    const size_t start = at_;
    uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const uint64_t digit = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (UINT64_MAX - digit) / 10) return Malformed("a number below 2^64", start);
      value = value * 10 + digit;
    }
    if (at_ == start) return Malformed("a whole number", start);
    return value;
  }

  absl::StatusOr<std::vector<uint64_t>> Array() {
    RETURN_IF_ERROR(Take('['));
    std::vector<uint64_t> values;
    if (TryTake(']')) return values;
    do {
      ASSIGN_OR_RETURN(const uint64_t value, Unsigned());
      values.push_back(value);
    } while (TryTake(','));
    RETURN_IF_ERROR(Take(']'));
    return values;
  }

  // Calls take(key) for every key of an object; keys must differ.
  template <typename TakeValue>
  absl::Status Object(const TakeValue& take) {
    RETURN_IF_ERROR(Take('{'));
    if (TryTake('}')) return absl::OkStatus();
    std::set<std::string> keys;
    do {
      ASSIGN_OR_RETURN(const std::string key, String());
      RETURN_IF_ERROR(Take(':'));
      if (!keys.insert(key).second) {
        return absl::DataLossError(
            absl::StrCat("safetensors header: key \"", key, "\" is there twice"));
      }
      RETURN_IF_ERROR(take(key));
    } while (TryTake(','));
    return Take('}');
  }

 private:
  absl::Status Escape(std::string* result) {
    static constexpr absl::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const size_t known = kFrom.find(c);
    if (c != '\0' && known != absl::string_view::npos) {
      result->push_back(kTo[known]);
      at_ += 2;
      return absl::OkStatus();
    }
    unsigned code = 0;
    const std::string digits(text_.substr(std::min(text_.size(), at_ + 2), 4));
    const bool is_ascii = c == 'u' && digits.size() == 4 && digits.substr(0, 2) == "00" &&
                          absl::SimpleHexAtoi(digits, &code) && code < 0x80;
    if (!is_ascii) return Malformed("an escape of an ASCII character", at_);
    result->push_back(static_cast<char>(code));
    at_ += 6;
    return absl::OkStatus();
  }

  absl::string_view text_;
  size_t at_ = 0;
};

absl::Status TakeMetadata(JsonCursor& cursor, std::map<std::string, std::string>* metadata) {
  return cursor.Object([&](const std::string& key) -> absl::Status {
    ASSIGN_OR_RETURN(metadata->operator[](key), cursor.String());
    return absl::OkStatus();
  });
}

absl::Status TakeEntry(JsonCursor& cursor, SafetensorsEntry* entry) {
  int fields = 0;
  RETURN_IF_ERROR(cursor.Object([&](const std::string& key) -> absl::Status {
    ++fields;
    if (key == "dtype") {
      ASSIGN_OR_RETURN(entry->dtype, cursor.String());
    } else if (key == "shape") {
      ASSIGN_OR_RETURN(entry->shape, cursor.Array());
    } else if (key == "data_offsets") {
      ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, cursor.Array());
      if (offsets.size() != 2) return Malformed("two data_offsets", 0);
      entry->begin = offsets[0];
      entry->end = offsets[1];
    } else {
      return absl::DataLossError(absl::StrCat("safetensors header: unknown key \"", key, "\""));
    }
    return absl::OkStatus();
  }));
  if (fields == 3) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("safetensors header: tensor \"", entry->name,
                                          "\" needs dtype, shape and data_offsets"));
}

// The tensor's bytes are what its shape says.
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
  SafetensorsHeader header;
  JsonCursor cursor(json);
  RETURN_IF_ERROR(cursor.Object([&](const std::string& key) -> absl::Status {
    if (key == kMetadata) return TakeMetadata(cursor, &header.metadata);
    header.tensors.emplace_back();
    header.tensors.back().name = key;
    return TakeEntry(cursor, &header.tensors.back());
  }));
  if (!cursor.AtEnd()) return Malformed("nothing but spaces after the header", 0);
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
  if (read < 8 || length > kMostHeaderBytes || length > file_bytes - 8) {
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
