#include "runtime/config/field_path.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "base/status_macros.h"
#include "runtime/config/enum_name.h"
#include "runtime/config/text_proto.h"
#include "runtime/config/unknown_field.h"
#include "runtime/config/wanted_value.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// One assignment, for its messages.
struct Assignment {
  absl::string_view label;
  absl::string_view path;
  absl::string_view value;

  std::string Name() const {
    return label == path ? std::string(label) : absl::StrCat(label, " ", path);
  }
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": ", what));
  }
  absl::Status Wanted(const FieldDescriptor& field, absl::string_view text) const {
    return Error(WantedValue(field, text));
  }
};

// A step of a path: a field's name and, for repeated messages, an index.
struct PathStep {
  std::string name;
  int index = -1;
};

absl::StatusOr<std::vector<PathStep>> SplitPath(const Assignment& assignment) {
  std::vector<PathStep> steps;
  for (const absl::string_view piece : absl::StrSplit(assignment.path, '.')) {
    PathStep step;
    const size_t bracket = piece.find('[');
    step.name = std::string(piece.substr(0, bracket));
    if (bracket != absl::string_view::npos) {
      const absl::string_view inside = piece.substr(bracket + 1);
      if (!absl::EndsWith(inside, "]") ||
          !absl::SimpleAtoi(inside.substr(0, inside.size() - 1), &step.index) || step.index < 0) {
        return assignment.Error(absl::StrCat("\"", piece, "\" is not name[index]"));
      }
    }
    if (step.name.empty()) return assignment.Error("has an empty part; write name.name=value");
    steps.push_back(std::move(step));
  }
  return steps;
}

// `before` is the path that leads to a message of this type, with its dot.
absl::StatusOr<const FieldDescriptor*> FindField(const Assignment& assignment,
                                                 const Descriptor& type, const std::string& before,
                                                 const std::string& name) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (field != nullptr) return field;
  return assignment.Error(UnknownField(type, name, before));
}

absl::Status SetEnum(const Assignment& assignment, const FieldDescriptor& field,
                     absl::string_view text, Message* message) {
  const EnumValueDescriptor* value = FindEnumValue(*field.enum_type(), text);
  if (value == nullptr) return assignment.Wanted(field, text);
  if (field.is_repeated()) {
    message->GetReflection()->AddEnum(message, &field, value);
  } else {
    message->GetReflection()->SetEnum(message, &field, value);
  }
  return absl::OkStatus();
}

// Sets a scalar, or adds one to a repeated field.
template <typename T>
void Store(const FieldDescriptor& field, Message* message, T value,
           void (google::protobuf::Reflection::*set)(Message*, const FieldDescriptor*, T) const,
           void (google::protobuf::Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  (message->GetReflection()->*(field.is_repeated() ? add : set))(message, &field, std::move(value));
}

template <typename T>
absl::StatusOr<T> ParseInteger(const Assignment& assignment, const FieldDescriptor& field,
                               absl::string_view text) {
  T value;
  if (absl::SimpleAtoi(text, &value)) return value;
  return assignment.Wanted(field, text);
}

absl::Status SetScalar(const Assignment& assignment, const FieldDescriptor& field,
                       absl::string_view text, Message* message) {
  using google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      ASSIGN_OR_RETURN(const uint32_t value, ParseInteger<uint32_t>(assignment, field, text));
      Store<uint32_t>(field, message, value, &Reflection::SetUInt32, &Reflection::AddUInt32);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      ASSIGN_OR_RETURN(const uint64_t value, ParseInteger<uint64_t>(assignment, field, text));
      Store<uint64_t>(field, message, value, &Reflection::SetUInt64, &Reflection::AddUInt64);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      ASSIGN_OR_RETURN(const int32_t value, ParseInteger<int32_t>(assignment, field, text));
      Store<int32_t>(field, message, value, &Reflection::SetInt32, &Reflection::AddInt32);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      ASSIGN_OR_RETURN(const int64_t value, ParseInteger<int64_t>(assignment, field, text));
      Store<int64_t>(field, message, value, &Reflection::SetInt64, &Reflection::AddInt64);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!absl::SimpleAtod(text, &value)) return assignment.Wanted(field, text);
      Store<double>(field, message, value, &Reflection::SetDouble, &Reflection::AddDouble);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value = false;
      if (!absl::SimpleAtob(text, &value)) return assignment.Wanted(field, text);
      Store<bool>(field, message, value, &Reflection::SetBool, &Reflection::AddBool);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      Store<std::string>(field, message, std::string(text), &Reflection::SetString,
                         &Reflection::AddString);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(assignment, field, text, message);
    default:
      return assignment.Error("a field of this kind cannot be set by its path");
  }
}

absl::Status SetMessage(const Assignment& assignment, const FieldDescriptor& field,
                        Message* message) {
  if (field.is_repeated()) {
    return assignment.Error(
        absl::StrCat("is a list of messages; choose one as ", field.name(), "[0]"));
  }
  Message* child = message->GetReflection()->MutableMessage(message, &field);
  return MergeTextProto(assignment.value, assignment.Name(), child);
}

absl::Status SetLeaf(const Assignment& assignment, const FieldDescriptor& field, Message* message) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return SetMessage(assignment, field, message);
  }
  if (!field.is_repeated()) return SetScalar(assignment, field, assignment.value, message);
  message->GetReflection()->ClearField(message, &field);
  if (assignment.value.empty()) return absl::OkStatus();
  for (const absl::string_view item : absl::StrSplit(assignment.value, ',')) {
    RETURN_IF_ERROR(SetScalar(assignment, field, absl::StripAsciiWhitespace(item), message));
  }
  return absl::OkStatus();
}

// The message that the step leads to.
absl::StatusOr<Message*> Descend(const Assignment& assignment, const PathStep& step,
                                 const FieldDescriptor& field, Message* message) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return assignment.Error(absl::StrCat("\"", step.name, "\" has no fields of its own"));
  }
  if (!field.is_repeated()) {
    if (step.index >= 0) return assignment.Error(absl::StrCat(step.name, " is not a list"));
    return message->GetReflection()->MutableMessage(message, &field);
  }
  const int size = message->GetReflection()->FieldSize(*message, &field);
  if (size == 0) {
    return assignment.Error(
        absl::StrCat(step.name, " is an empty list",
                     step.name == "layer" ? " (a model that is given by name lists no layers)" : "",
                     ", so it has no ", step.name, "[", std::max(step.index, 0),
                     "]; list its elements in the run file"));
  }
  if (step.index < 0 || step.index >= size) {
    return assignment.Error(
        absl::StrCat(step.name, " is a list of ", size, "; choose one as ", step.name, "[0]"));
  }
  return message->GetReflection()->MutableRepeatedMessage(message, &field, step.index);
}

}  // namespace

absl::Status SetField(absl::string_view label, absl::string_view path, absl::string_view value,
                      google::protobuf::Message* message) {
  const Assignment assignment{label, path, value};
  ASSIGN_OR_RETURN(const std::vector<PathStep> steps, SplitPath(assignment));
  size_t behind = 0;  // The position in the path at which the step begins.
  for (size_t i = 0; i < steps.size(); ++i) {
    ASSIGN_OR_RETURN(const FieldDescriptor* field,
                     FindField(assignment, *message->GetDescriptor(),
                               std::string(path.substr(0, behind)), steps[i].name));
    behind = path.find('.', behind) + 1;
    const bool last = i + 1 == steps.size();
    if (last && steps[i].index < 0) return SetLeaf(assignment, *field, message);
    ASSIGN_OR_RETURN(message, Descend(assignment, steps[i], *field, message));
    if (last) {
      return assignment.Error(absl::StrCat("ends in an element; name one of its fields"));
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal
