#include "runtime/config/text_proto.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

#include "runtime/config/enum_name.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/text_place.h"

namespace shoal {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

// The text between the first pair of quotes after `start`.
std::string Quoted(absl::string_view message, size_t start) {
  const size_t open = message.find('"', start);
  if (open == absl::string_view::npos) return "";
  const size_t close = message.find('"', open + 1);
  if (close == absl::string_view::npos) return "";
  return std::string(message.substr(open + 1, close - open - 1));
}

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

// `Message type "shoal.v1.RunConfig" has no field named "x".` -> `RunConfig has no field "x"; ...`
std::string ExplainUnknownField(const std::string& message) {
  const size_t named = message.find("has no field named");
  if (named == std::string::npos) return "";
  const std::string type_name = Quoted(message, 0);
  const std::string field = Quoted(message, named);
  const google::protobuf::Descriptor* type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type_name);
  if (type == nullptr) return "";
  return absl::StrCat(type->name(), " has no field \"", field, "\"",
                      DidYouMean(field, FieldNames(*type)));
}

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

// The short names of the values, but for the one that stands for "not said".
std::string KnownNames(const google::protobuf::EnumDescriptor& type) {
  std::string names;
  for (int i = 1; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i == 1 ? "" : ", ", ShortEnumName(*type.value(i)));
  }
  return names;
}

// Keeps the first error; those after it are mostly consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(absl::string_view text, absl::string_view source, bool has_lines,
             const google::protobuf::Descriptor& type)
      : text_(text),
        lines_(absl::StrSplit(text, '\n')),
        source_(source),
        has_lines_(has_lines),
        type_(type) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!error_.empty()) return;
    error_ = source_;
    FindUnknownValue(line, column, message);
    std::string explained = ExplainUnknownField(message);
    if (line >= 0 && has_lines_) absl::StrAppend(&error_, ":", line + 1);
    absl::StrAppend(&error_, ": ");
    if (!explained.empty()) {
      absl::StrAppend(&error_, explained);
      return;
    }
    if (line >= 0 && static_cast<size_t>(line) < lines_.size()) {
      const std::string field = FieldBefore(lines_[line], column);
      if (!field.empty()) absl::StrAppend(&error_, field, ": ");
    }
    if (absl::EndsWith(message, "got: ") || absl::EndsWith(message, "got: .")) {
      absl::StrAppend(&error_, "the text ends inside a message; is a } missing?");
      return;
    }
    absl::StrAppend(&error_, absl::StripSuffix(message, "."));
    if (enum_ != nullptr) absl::StrAppend(&error_, "; known are ", KnownNames(*enum_));
  }

  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  const std::string& error() const { return error_; }

  // Writes out in full the enum value that the text has in its short form. False: that was not what
  // was wrong.
  bool ExpandEnumValue(std::string* text) const {
    if (enum_ == nullptr || value_at_ == absl::string_view::npos) return false;
    const google::protobuf::EnumValueDescriptor* full = FindEnumValue(*enum_, value_);
    if (full == nullptr || full->name() == value_) return false;
    if (text->compare(value_at_, value_.size(), value_) != 0) return false;
    text->replace(value_at_, value_.size(), full->name());
    return true;
  }

 private:
  // If what is wrong is the value of an enum: which value of which enum, and where it stands.
  void FindUnknownValue(int line, int column, const std::string& message) {
    const size_t for_field = message.find("for field");
    if (line < 0 || for_field == std::string::npos ||
        !absl::StartsWith(message, "Unknown enumeration value of")) {
      return;
    }
    // The error stands at the token after the value.
    const TextPlace place = FindTextPlace(text_, TextPosition(text_, line, column), type_);
    if (place.type == nullptr) return;
    const auto* field = place.type->FindFieldByName(Quoted(message, for_field));
    if (field == nullptr || field->enum_type() == nullptr) return;
    enum_ = field->enum_type();
    value_ = Quoted(message, 0);
    value_at_ = place.last_word;
  }

  const absl::string_view text_;
  const std::vector<std::string> lines_;
  const std::string source_;
  const bool has_lines_;
  const google::protobuf::Descriptor& type_;
  std::string error_;
  const google::protobuf::EnumDescriptor* enum_ = nullptr;  // See FindUnknownValue.
  std::string value_;
  size_t value_at_ = absl::string_view::npos;
};

// Replaces the message; in `text`, enum values are written out.
absl::Status ParseText(absl::string_view source, bool has_lines, std::string* text,
                       google::protobuf::Message* message) {
  while (true) {
    FirstError errors(*text, source, has_lines, *message->GetDescriptor());
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&errors);
    parser.SetRecursionLimit(32);
    google::protobuf::io::ArrayInputStream input(text->data(), static_cast<int>(text->size()));
    if (parser.Parse(&input, message)) return absl::OkStatus();
    if (errors.ExpandEnumValue(text)) continue;
    return absl::InvalidArgumentError(
        errors.error().empty() ? absl::StrCat(source, ": is not a text proto") : errors.error());
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

absl::StatusOr<std::string> ReadTextFile(absl::string_view field, const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  const auto fail = [&](absl::string_view what) {
    const std::string text = absl::StrCat(field, ": cannot read ", path, ": ", what);
    return errno == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
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
