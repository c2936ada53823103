#include "runtime/config/wanted_value.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"

#include "runtime/config/enum_name.h"

namespace shoal {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

std::string Kind(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return "a whole number >= 0 of at most 32 bits";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number >= 0 of at most 64 bits";
    case FieldDescriptor::CPPTYPE_INT32:
      return "a whole number of at most 32 bits";
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number of at most 64 bits";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumDescriptor& type = *field.enum_type();
      std::vector<std::string> names;
      for (int i = 1; i < type.value_count(); ++i) names.push_back(ShortEnumName(*type.value(i)));
      return absl::StrCat("one of ", absl::StrJoin(names, ", "));
    }
    default:
      return "text in quotes";
  }
}

}  // namespace

std::string WantedValue(const FieldDescriptor& field, absl::string_view text) {
  return absl::StrCat(Kind(field), " is wanted, not \"", text, "\"");
}

}  // namespace shoal
