#include "runtime/config/text_proto.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

#include "base/passing_errors.h"
#include "runtime/config/enum_values.h"

namespace shoal {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

// The field whose value stands at or before `column`: the last name before a ':' or '{'.
std::string FieldBefore(absl::string_view line, int column) {
  absl::string_view head = line.substr(0, static_cast<size_t>(column) + 1);
  const size_t mark = head.find_last_of(":{");
  if (mark == absl::string_view::npos) return "";
  head = absl::StripTrailingAsciiWhitespace(head.substr(0, mark));
  size_t begin = head.size();
  while (begin > 0 && (absl::ascii_isalnum(head[begin - 1]) || head[begin - 1] == '_')) --begin;
  return std::string(head.substr(begin));
}

// "FILE:LINE: what is wrong"; the line counts from 0, and -1 is none.
std::string ErrorAt(absl::string_view source, int line, absl::string_view what) {
  return absl::StrCat(source, line >= 0 ? absl::StrCat(":", line + 1) : "", ": ", what);
}

// Returns what is wrong if the parser's error is about two fields of which a message may have one,
// such as: Field "adam" is specified along with field "sgd", another member of oneof "rule".
// Returns "" for another error.
std::string DescribeTwoOfOneof(absl::string_view error) {
  const std::vector<absl::string_view> parts = absl::StrSplit(error, '"');
  if (parts.size() != 7 || parts[2] != " is specified along with field ") return "";
  return absl::StrCat(parts[3], " and ", parts[1], " are both given, but ",
                      parts[5] == "rule" ? "an optimizer has one rule" : "only one of them may be",
                      "; keep one of them");
}

// Keeps the first error; those after it are mostly consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(absl::string_view text, absl::string_view source, bool has_lines)
      : lines_(absl::StrSplit(text, '\n')), source_(source), has_lines_(has_lines) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!error_.empty()) return;
    std::string what = DescribeTwoOfOneof(message);
    if (!what.empty()) {
      error_ = ErrorAt(source_, has_lines_ ? line : -1, what);
      return;
    }
    if (line >= 0 && static_cast<size_t>(line) < lines_.size()) {
      const std::string field = FieldBefore(lines_[line], column);
      if (!field.empty()) absl::StrAppend(&what, field, ": ");
    }
    absl::StrAppend(&what, absl::StripSuffix(message, "."));
    error_ = ErrorAt(source_, has_lines_ ? line : -1, what);
  }

  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  const std::string& error() const { return error_; }

 private:
  const std::vector<std::string> lines_;
  const std::string source_;
  const bool has_lines_;
  std::string error_;
};

// Replaces the message; in `text`, enum values are written out.
absl::Status ParseText(absl::string_view source, bool has_lines, std::string* text,
                       google::protobuf::Message* message) {
  ExpandedText expanded = ExpandEnumValues(*text, *message->GetDescriptor());
  if (!expanded.error.empty()) {
    return absl::InvalidArgumentError(
        ErrorAt(source, has_lines ? expanded.error_line : -1, expanded.error));
  }
  *text = std::move(expanded.text);
  FirstError errors(*text, source, has_lines);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(32);
  google::protobuf::io::ArrayInputStream input(text->data(), static_cast<int>(text->size()));
  if (parser.Parse(&input, message)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      errors.error().empty() ? absl::StrCat(source, ": is not a text proto") : errors.error());
}

// Returns 0, or the errno of what failed; EFBIG if the file is too large.
int ReadWholeFile(const std::string& path, FileOpener open, std::string* text) {
  text->clear();
  const std::unique_ptr<FILE, int (*)(FILE*)> file(open(path.c_str(), "re"), &std::fclose);
  if (file == nullptr) return errno;
  char buffer[4096];
  while (true) {
    const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get());
    if (std::ferror(file.get()) != 0) return errno;
    if (count == 0) return 0;
    text->append(buffer, count);
    if (text->size() > kMaxFileBytes) return EFBIG;
  }
}

}  // namespace

absl::Status ParseTextProto(absl::string_view text, absl::string_view file_name,
                            google::protobuf::Message* message) {
  std::string full(text);
  return ParseText(file_name, /*has_lines=*/true, &full, message);
}

absl::Status MergeTextProto(absl::string_view text, absl::string_view source,
                            google::protobuf::Message* message) {
  std::string full(text);
  const std::unique_ptr<google::protobuf::Message> alone(message->New());
  const absl::Status status = ParseText(source, absl::StrContains(text, '\n'), &full, alone.get());
  // Merged as text: a field that is given its default is given.
  if (status.ok()) google::protobuf::TextFormat::MergeFromString(full, message);
  return status;
}

std::string PrintTextProto(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

absl::StatusOr<std::string> ReadTextFile(absl::string_view field, const std::string& path,
                                         FileOpener open) {
  std::string text;
  int error = ReadWholeFile(path, open, &text);
  // Another file took the name after the first was opened, which a client of NFS cannot read then.
  if (error == ESTALE) error = ReadWholeFile(path, open, &text);
  if (error == 0) return text;
  const std::string failure =
      absl::StrCat(field, ": cannot read ", path, ": ",
                   error == EFBIG ? "larger than 16 MiB" : std::strerror(error));
  if (IsPassingError(error)) {
    return absl::UnavailableError(absl::StrCat(failure, "; this may pass, so try again"));
  }
  if (error == ENOENT) {
    return absl::NotFoundError(absl::StrCat(failure, "; name a file that is there"));
  }
  return absl::InvalidArgumentError(failure);
}

}  // namespace shoal
