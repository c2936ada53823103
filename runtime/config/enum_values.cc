#include "runtime/config/enum_values.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"

#include "runtime/config/enum_name.h"
#include "runtime/config/unknown_field.h"
#include "runtime/config/wanted_value.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;

bool IsWordPart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// The short names of the values, but for the one that stands for an unset field.
std::string KnownNames(const EnumDescriptor& type) {
  std::string names;
  for (int i = 1; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i == 1 ? "" : ", ", ShortEnumName(*type.value(i)));
  }
  return names;
}

// Returns whether a field of this type may have this word as its value, which stands without
// quotes.
bool TakesWord(FieldDescriptor::CppType type, absl::string_view word) {
  if (type == FieldDescriptor::CPPTYPE_BOOL) {
    for (const char* known : {"true", "True", "t", "false", "False", "f"}) {
      if (word == known) return true;
    }
    return false;
  }
  double value = 0;  // inf, infinity or nan
  return (type == FieldDescriptor::CPPTYPE_DOUBLE || type == FieldDescriptor::CPPTYPE_FLOAT) &&
         absl::SimpleAtod(word, &value);
}

// Returns whether a field of this type may have this number as its value. Protobuf's parser judges
// hexadecimal and octal numbers, and a sign that stands by itself.
bool TakesNumber(FieldDescriptor::CppType type, absl::string_view text) {
  if (type == FieldDescriptor::CPPTYPE_STRING) return false;
  const absl::string_view digits = absl::StripPrefix(text, "-");
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0' && IsWordPart(digits[1])))
    return true;
  uint32_t small = 0;
  uint64_t large = 0;
  int32_t small_signed = 0;
  int64_t large_signed = 0;
  switch (type) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::SimpleAtoi(text, &small);
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::SimpleAtoi(text, &large);
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::SimpleAtoi(text, &small_signed);
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::SimpleAtoi(text, &large_signed);
    default:
      return true;
  }
}

// Follows the text from message to message.
class Expander {
 public:
  Expander(absl::string_view text, const Descriptor& type) : text_(text) {
    open_.push_back({&type});
  }

  ExpandedText Run() {
    while (at_ < text_.size() && expanded_.error.empty()) ReadToken();
    if (expanded_.error.empty() && open_.size() > 1) {
      Fail("the text ends inside a message; is a } missing?");
    }
    return std::move(expanded_);
  }

 private:
  // A message that is open, and where in it the text is.
  struct Open {
    const Descriptor* type;  // Null: the text named an unknown message.
    // The field whose value is next; null if a field's name is next.
    const FieldDescriptor* field = nullptr;
    bool in_list = false;
  };

  void ReadToken() {
    const char c = text_[at_];
    const size_t begin = at_;
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '"' || c == '\'') {
      SkipQuoted();
      TakeQuoted(text_.substr(begin, at_ - begin));
    } else if (absl::ascii_isdigit(c) || c == '.' || c == '-' || c == '+') {
      SkipNumber();
      TakeNumber(text_.substr(begin, at_ - begin));
    } else if (IsWordPart(c)) {
      while (at_ < text_.size() && IsWordPart(text_[at_])) ++at_;
      return TakeWord(text_.substr(begin, at_ - begin));
    } else {
      ++at_;
      TakeSymbol(c);
    }
    absl::StrAppend(&expanded_.text, text_.substr(begin, at_ - begin));
  }

  void TakeWord(absl::string_view word) {
    Open& open = open_.back();
    if (open.type != nullptr && open.field == nullptr) {
      open.field = open.type->FindFieldByName(std::string(word));
      if (open.field == nullptr) FailOnField(word);
    } else if (open.field != nullptr) {
      if (open.field->enum_type() != nullptr) {
        word = FullName(*open.field, word);
      } else if (!TakesWord(open.field->cpp_type(), word)) {
        FailOnValue(*open.field, word);
      }
      EndValue();
    }
    absl::StrAppend(&expanded_.text, word);
  }

  void TakeNumber(absl::string_view text) {
    const FieldDescriptor* field = open_.back().field;
    if (field != nullptr && !TakesNumber(field->cpp_type(), text)) FailOnValue(*field, text);
    EndValue();
  }

  // `text` has its quotes.
  void TakeQuoted(absl::string_view text) {
    const FieldDescriptor* field = open_.back().field;
    if (field != nullptr && field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      FailOnValue(*field, text.substr(1, text.size() < 2 ? 0 : text.size() - 2));
    }
    EndValue();
  }

  absl::string_view FullName(const FieldDescriptor& field, absl::string_view word) {
    const EnumDescriptor& type = *field.enum_type();
    if (type.FindValueByName(std::string(word)) != nullptr) return word;
    if (const EnumValueDescriptor* value = FindEnumValue(type, word)) return value->name();
    Fail(
        absl::StrCat(field.name(), ": unknown value \"", word, "\"; known are ", KnownNames(type)));
    return word;
  }

  void TakeSymbol(char c) {
    Open& open = open_.back();
    if (c == '{' || c == '<') {
      open_.push_back({open.field == nullptr ? nullptr : open.field->message_type()});
    } else if ((c == '}' || c == '>') && open_.size() > 1) {
      open_.pop_back();
      EndValue();
    } else if (c == '[') {
      open.in_list = open.field != nullptr;
      // The name of an extension: no field of ours has one.
      if (!open.in_list) at_ = std::min(text_.find(']', at_), text_.size());
    } else if (c == ']') {
      open.in_list = false;
      EndValue();
    }
  }

  void EndValue() {
    if (!open_.back().in_list) open_.back().field = nullptr;
  }

  // Past the quoted text, or to the end of its line if it is not closed.
  void SkipQuoted() {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  void SkipNumber() {
    for (char before = 0; at_ < text_.size(); before = text_[at_++]) {
      const char c = text_[at_];
      const bool is_sign = c == '-' || c == '+';
      if (is_sign && before != 0 && before != 'e' && before != 'E') return;
      if (!is_sign && c != '.' && !IsWordPart(c)) return;
    }
  }

  void Fail(std::string what) {
    expanded_.error = std::move(what);
    expanded_.error_line = static_cast<int>(std::count(text_.begin(), text_.begin() + at_, '\n'));
  }

  // `word` is not a field of the innermost message. If it is one of a message around it, an end is
  // missing.
  void FailOnField(absl::string_view word) {
    const std::string name(word);
    const Descriptor& type = *open_.back().type;
    for (size_t i = open_.size() - 1; i-- > 0;) {
      const Descriptor* around = open_[i].type;
      if (around == nullptr || around->FindFieldByName(name) == nullptr) continue;
      return Fail(absl::StrCat(type.name(), " has no field \"", name, "\", but ", around->name(),
                               " has one; is a } missing before it?"));
    }
    Fail(UnknownField(type, name, ""));
  }

  // `text` is not a value of the field.
  void FailOnValue(const FieldDescriptor& field, absl::string_view text) {
    if (const Descriptor* type = field.message_type()) {
      return Fail(absl::StrCat(field.name(), ": \"", text, "\" is not a ", type->name(), "; write ",
                               field.name(), " { ... }"));
    }
    const bool wants_quotes = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    Fail(absl::StrCat(field.name(), ": ", WantedValue(field, text),
                      wants_quotes ? absl::StrCat("; write \"", text, "\"") : ""));
  }

  const absl::string_view text_;
  size_t at_ = 0;
  std::vector<Open> open_;
  ExpandedText expanded_;
};

}  // namespace

ExpandedText ExpandEnumValues(absl::string_view text, const Descriptor& type) {
  return Expander(text, type).Run();
}

}  // namespace shoal
