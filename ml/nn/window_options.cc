#include "ml/nn/window_options.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/nn/layer_parts.h"

namespace shoal {
namespace {

// Computes the padding before and after the image with which the window has ceil(size / stride)
// positions. Like in TensorFlow, an odd total has one more after the image.
std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t reach, int64_t stride) {
  const int64_t places = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>(0, (places - 1) * stride + reach - size);
  return {total / 2, total - total / 2};
}

bool CheckSize(GraphBuilder& builder, const char* field, const Size2& size) {
  return CheckPositive(builder, field, std::min(size.height, size.width));
}

}  // namespace

bool MakeWindowAttributes(GraphBuilder& builder, Output images, const Window& window,
                          Attributes* attributes) {
  if (!CheckSize(builder, "kernel", window.kernel) || !CheckSize(builder, "stride", window.stride))
    return false;
  if (!CheckSize(builder, "dilation", window.dilation)) return false;
  const Padding& p = window.padding;
  std::vector<int64_t> pads = {0, 0, 0, 0};
  if (p.kind == PaddingKind::kExplicit) {
    pads = {p.top, p.left, p.bottom, p.right};
    const int64_t least = *std::min_element(pads.begin(), pads.end());
    if (least < 0) {
      FailLayer(builder, "padding", absl::StrCat("must not be negative, is ", least));
      return false;
    }
  } else if (p.kind == PaddingKind::kSame) {
    const int64_t rows = (window.kernel.height - 1) * window.dilation.height + 1;
    const int64_t columns = (window.kernel.width - 1) * window.dilation.width + 1;
    std::tie(pads[0], pads[2]) = SamePadding(images.shape().dim(2), rows, window.stride.height);
    std::tie(pads[1], pads[3]) = SamePadding(images.shape().dim(3), columns, window.stride.width);
  }
  attributes->Set("strides", std::vector<int64_t>{window.stride.height, window.stride.width});
  attributes->Set("pads", std::move(pads));
  if (window.dilation.height > 1 || window.dilation.width > 1) {
    attributes->Set("dilations",
                    std::vector<int64_t>{window.dilation.height, window.dilation.width});
  }
  return true;
}

}  // namespace shoal
