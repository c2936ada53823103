#include "runtime/config/text_place.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "google/protobuf/descriptor.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int kTabWidth = 8;

bool IsWordPart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Past the quoted text that begins at `at`, or at the end of its line if it is not closed.
size_t SkipQuoted(absl::string_view text, size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return at + 1;
}

size_t SkipWord(absl::string_view text, size_t at) {
  while (at < text.size() && IsWordPart(text[at])) ++at;
  return at;
}

// A message that is open: its type, and the field that it is the value of.
struct OpenMessage {
  const Descriptor* type;
  absl::string_view field;
};

const Descriptor* TypeOfField(const Descriptor* type, absl::string_view name) {
  if (type == nullptr) return nullptr;
  const FieldDescriptor* field = type->FindFieldByName(std::string(name));
  return field == nullptr ? nullptr : field->message_type();
}

}  // namespace

TextPlace FindTextPlace(absl::string_view text, size_t position, const Descriptor& type) {
  text = text.substr(0, position);
  std::vector<OpenMessage> open = {{&type, ""}};
  absl::string_view word;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (IsWordPart(c)) {
      const size_t end = SkipWord(text, at);
      word = text.substr(at, end - at);
      at = end;
    } else if (c == '#') {
      at = text.find('\n', at);
    } else if (c == '"' || c == '\'') {
      at = SkipQuoted(text, at);
    } else {
      if (c == '{' || c == '<') {
        open.push_back({TypeOfField(open.back().type, word), word});
      } else if ((c == '}' || c == '>') && open.size() > 1) {
        word = open.back().field;  // Of a list, whose next element may follow.
        open.pop_back();
      }
      ++at;
    }
  }
  TextPlace place;
  place.type = open.back().type;
  if (!word.empty()) place.last_word = static_cast<size_t>(word.data() - text.data());
  return place;
}

size_t TextPosition(absl::string_view text, int line, int column) {
  size_t at = 0;
  for (int i = 0; i < line; ++i) {
    at = text.find('\n', at);
    if (at == absl::string_view::npos) return text.size();
    ++at;
  }
  for (int reached = 0; reached < column && at < text.size() && text[at] != '\n'; ++at) {
    reached += text[at] == '\t' ? kTabWidth - reached % kTabWidth : 1;
  }
  return at;
}

}  // namespace shoal
