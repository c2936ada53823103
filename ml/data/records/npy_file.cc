#include "ml/data/records/npy_file.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/records/unreadable_data.h"

namespace shoal {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 38;

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, "; write the file again with numpy.save"));
}

absl::Status NotRead(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Returns the value of 'key' in the header, which is a Python dictionary: the text up to a comma
// outside parentheses.
absl::StatusOr<absl::string_view> ValueOf(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return Damaged(absl::StrCat("its header has no ", key));
  absl::string_view value = header.substr(at + key.size() + 3);
  value = absl::StripLeadingAsciiWhitespace(value);
  const size_t end = absl::StartsWith(value, "(") ? value.find(')') : value.find_first_of(",}");
  if (end == absl::string_view::npos) return Damaged(absl::StrCat("its header ends in ", key));
  return absl::StripTrailingAsciiWhitespace(value.substr(0, end));
}

absl::Status ParseType(absl::string_view type, absl::string_view wanted, NpyArray* array) {
  const absl::string_view text = absl::StripSuffix(absl::StripPrefix(type, "'"), "'");
  int bytes = 0;
  const bool known = text.size() == 3 && absl::SimpleAtoi(text.substr(2), &bytes) &&
                     absl::string_view("fiub").find(text[1]) != absl::string_view::npos &&
                     (text[0] == '<' || (text[0] == '|' && bytes == 1)) &&
                     (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  if (!known || (text[1] == 'f' && bytes < 4) || (text[1] == 'b' && bytes != 1)) {
    return NotRead(absl::StrCat("elements of type ", absl::CHexEscape(text), " are not read; save ",
                                wanted, ", little-endian"));
  }
  array->kind = text[1];
  array->element_bytes = bytes;
  return absl::OkStatus();
}

absl::Status ParseShape(absl::string_view shape, NpyArray* array) {
  shape.remove_prefix(absl::StartsWith(shape, "(") ? 1 : 0);
  int64_t elements = 1;
  for (absl::string_view dim : absl::StrSplit(shape, ',', absl::SkipWhitespace())) {
    int64_t size = 0;
    const bool fits = absl::SimpleAtoi(dim, &size) && size >= 0 &&
                      (size == 0 || elements <= (int64_t{1} << 40) / size);
    if (!fits) {
      return Damaged(absl::StrCat("its shape (", absl::CHexEscape(shape), ") is not a shape"));
    }
    elements *= size;
    array->dims.push_back(size);
  }
  return absl::OkStatus();
}

// Parses the header at the begin of `file`; the whole file has `file_bytes`.
absl::Status Parse(absl::string_view file, uint64_t file_bytes, absl::string_view wanted,
                   NpyArray* array) {
  if (!absl::StartsWith(file, "\x93NUMPY") || file.size() < 10)
    return Damaged("is not an npy file");
  const int version = static_cast<uint8_t>(file[6]);
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3 || file.size() < 8 + length_bytes) {
    return Damaged(absl::StrCat("has format version ", version, ", known are 1 to 3"));
  }
  size_t length = 0;
  for (size_t k = 0; k < length_bytes; ++k) {
    length |= size_t{static_cast<uint8_t>(file[8 + k])} << (8 * k);
  }
  if (length > file.size() - 8 - length_bytes) return Damaged("is truncated in its header");
  const absl::string_view header = file.substr(8 + length_bytes, length);
  array->begin = 8 + length_bytes + length;
  ASSIGN_OR_RETURN(const absl::string_view type, ValueOf(header, "descr"));
  RETURN_IF_ERROR(ParseType(type, wanted, array));
  ASSIGN_OR_RETURN(const absl::string_view order, ValueOf(header, "fortran_order"));
  if (order != "False") {
    return NotRead("is column-major; save numpy.ascontiguousarray of it");
  }
  ASSIGN_OR_RETURN(const absl::string_view shape, ValueOf(header, "shape"));
  RETURN_IF_ERROR(ParseShape(shape, array));
  const uint64_t bytes = static_cast<uint64_t>(array->num_elements() * array->element_bytes);
  const uint64_t there = file_bytes - array->begin;
  if (bytes != there) {
    return Damaged(absl::StrCat("is truncated or too long: its header promises ", bytes,
                                " bytes of elements, ", there, " are there"));
  }
  return absl::OkStatus();
}

template <typename T, typename Result = double>
Result Element(absl::string_view elements, int64_t index) {
  T value;
  std::memcpy(&value, elements.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return static_cast<Result>(value);
}

// Returns an integer; `Signed` and `Unsigned` are the types of its size.
template <typename Signed, typename Unsigned, typename Result>
Result Integer(bool is_signed, absl::string_view elements, int64_t index) {
  return is_signed ? Element<Signed, Result>(elements, index)
                   : Element<Unsigned, Result>(elements, index);
}

template <typename Result>
Result IntegerOf(const NpyArray& array, int64_t index) {
  const absl::string_view bytes = array.elements();
  const bool is_signed = array.kind == 'i';
  switch (array.element_bytes) {
    case 1:
      return Integer<int8_t, uint8_t, Result>(is_signed, bytes, index);
    case 2:
      return Integer<int16_t, uint16_t, Result>(is_signed, bytes, index);
    case 4:
      return Integer<int32_t, uint32_t, Result>(is_signed, bytes, index);
    default:
      return Integer<int64_t, uint64_t, Result>(is_signed, bytes, index);
  }
}

}  // namespace

int64_t NpyArray::num_elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

std::string NpyArray::Type() const {
  return absl::StrCat(element_bytes == 1 ? "|" : "<", std::string(1, kind), element_bytes);
}

double NpyArray::At(int64_t index) const {
  const absl::string_view bytes = elements();
  if (kind == 'f') {
    return element_bytes == 4 ? Element<float>(bytes, index) : Element<double>(bytes, index);
  }
  return IntegerOf<double>(*this, index);
}

int64_t NpyArray::IntegerAt(int64_t index) const { return IntegerOf<int64_t>(*this, index); }

absl::StatusOr<NpyArray> ReadNpyFile(const std::string& path, absl::string_view wanted) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  NpyArray array;
  absl::StatusOr<std::string> file = ReadFile(*files, path, kLargestFile);
  if (!file.ok()) return UnreadableData(file.status());
  array.file = *std::move(file);
  const absl::Status status = Parse(array.file, array.file.size(), wanted, &array);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  return array;
}

absl::StatusOr<NpyArray> ParseNpyHeader(absl::string_view head, uint64_t file_bytes,
                                        absl::string_view wanted) {
  NpyArray array;
  RETURN_IF_ERROR(Parse(head, file_bytes, wanted, &array));
  return array;
}

std::string NpyHeader(const std::vector<int64_t>& dims) {
  std::string header = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                    absl::StrJoin(dims, ", "), dims.size() == 1 ? "," : "", "), }");
  // Magic, version and length take 10 bytes; the elements begin at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header.push_back('\n');
  const char length[] = {static_cast<char>(header.size() & 0xff),
                         static_cast<char>(header.size() >> 8)};
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00", 8), absl::string_view(length, 2),
                      header);
}

}  // namespace shoal
