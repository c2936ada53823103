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

// Keeps the first error; those after it are mostly consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(absl::string_view text, absl::string_view source, bool has_lines)
      : lines_(absl::StrSplit(text, '\n')), source_(source), has_lines_(has_lines) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!error_.empty()) return;
    std::string what;
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

absl::StatusOr<std::string> ReadTextFile(absl::string_view field, const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  const auto fail = [&](absl::string_view what) {
    const bool is_missing = errno == ENOENT;
    const std::string text = absl::StrCat(field, ": cannot read ", path, ": ", what,
                                          is_missing ? "; name a file that is there" : "");
    return is_missing ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
  };
  if (file == nullptr) return fail(std::strerror(errno));
  std::string text;
  char buffer[4096];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    text.append(buffer, count);
    if (text.size() > kMaxFileBytes) {
      errno = EFBIG;
      return fail("larger than 16 MiB");
    }
  }
  if (std::ferror(file.get())) return fail(std::strerror(errno));
  return text;
}

}  // namespace shoal
