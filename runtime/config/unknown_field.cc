#include "runtime/config/unknown_field.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"

#include "runtime/config/nearest_name.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Finds the paths to fields of this name in nested messages, except those in lists. Recursive
// messages are followed only to a limited depth.
void FindBelow(const Descriptor& type, const std::string& name, const std::string& prefix,
               std::vector<std::string>* paths) {
  constexpr size_t kMaxPath = 100;
  for (int i = 0; i < type.field_count() && prefix.size() < kMaxPath; ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_repeated()) continue;
    const std::string path = absl::StrCat(prefix, field.name(), ".");
    const Descriptor& child = *field.message_type();
    if (child.FindFieldByName(name) != nullptr) paths->push_back(path + name);
    FindBelow(child, name, path, paths);
  }
}

}  // namespace

std::string UnknownField(const Descriptor& type, const std::string& name,
                         const std::string& before) {
  const std::string what = absl::StrCat(type.name(), " has no field \"", name, "\"");
  std::vector<std::string> below;
  FindBelow(type, name, before, &below);
  if (!below.empty()) {
    return absl::StrCat(what, "; did you mean ", absl::StrJoin(below, " or "), "?");
  }
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  const std::string hint = DidYouMean(name, names);
  return absl::StrCat(what, hint.empty() ? "; it has " + absl::StrJoin(names, ", ") : hint);
}

}  // namespace shoal
