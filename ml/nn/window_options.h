// Sizes and padding of the windows of convolutions and pools. All numbers are in pixels.
#ifndef SHOAL_ML_NN_WINDOW_OPTIONS_H_
#define SHOAL_ML_NN_WINDOW_OPTIONS_H_

#include <cstdint>

#include "ml/device/attributes.h"
#include "ml/graph/graph_builder.h"

namespace shoal {

// Height and width; a single number is used for both.
struct Size2 {
  int64_t height = 1;
  int64_t width = 1;

  Size2() = default;
  Size2(int64_t both) : height(both), width(both) {}  // NOLINT: a square is given by its side
  Size2(int64_t height, int64_t width) : height(height), width(width) {}
};

enum class PaddingKind {
  // Output size = ceil(input size / stride); of an odd total, the extra row is at the bottom
  // (column at the right).
  kSame,
  kValid,     // no padding
  kExplicit,  // the given numbers of rows and columns
};

struct Padding {
  PaddingKind kind = PaddingKind::kSame;
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // kExplicit

  static Padding Same() { return {}; }
  static Padding Valid() { return {PaddingKind::kValid}; }
  static Padding Explicit(int64_t all) { return {PaddingKind::kExplicit, all, all, all, all}; }
};

struct Window {
  Size2 kernel, stride, dilation;
  Padding padding;
};

// Sets the attributes strides, pads and dilations for a window over these images. Returns false,
// and sets an error in the builder, if a number is out of range.
bool MakeWindowAttributes(GraphBuilder& builder, Output images, const Window& window,
                          Attributes* attributes);

}  // namespace shoal

#endif  // SHOAL_ML_NN_WINDOW_OPTIONS_H_
