// Finds where in a text proto something stands, which messages of protobuf's parser, which give a
// line and a column, leave out.
#ifndef SHOAL_RUNTIME_CONFIG_TEXT_PLACE_H_
#define SHOAL_RUNTIME_CONFIG_TEXT_PLACE_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace google {
namespace protobuf {
class Descriptor;
}
}  // namespace google

namespace shoal {

struct TextPlace {
  // Returns the message whose fields stand there. Null: the text names an unknown message.
  const google::protobuf::Descriptor* type = nullptr;
  // Where the last letters, digits and _ before it begin, those in quotes and comments left out;
  // npos if there are none.
  size_t last_word = absl::string_view::npos;
};

// The place of `position` in the text, which is one of `type`.
TextPlace FindTextPlace(absl::string_view text, size_t position,
                        const google::protobuf::Descriptor& type);

// The position that protobuf's tokenizer calls this line and column: both from 0, tabs go to the
// next multiple of 8. At most the end of the line.
size_t TextPosition(absl::string_view text, int line, int column);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_TEXT_PLACE_H_
