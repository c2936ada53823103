#include "ml/device/describe_request.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

void AppendSpec(std::string* text, const TensorSpec& spec) {
  absl::StrAppend(text, DataTypeName(spec.dtype), " ", spec.shape.ToString(),
                  spec.layout == Layout::kBlocked16 ? " blocked16" : "");
}

}  // namespace

std::string DescribeRequest(const KernelRequest& request) {
  return absl::StrCat(request.op, "(", absl::StrJoin(request.inputs, ", ", AppendSpec), ") -> (",
                      absl::StrJoin(request.outputs, ", ", AppendSpec), ")");
}

}  // namespace shoal
