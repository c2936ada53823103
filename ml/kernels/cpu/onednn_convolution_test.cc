#include "ml/kernels/cpu/onednn_convolution.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/convolution_primitive.h"
#include "ml/kernels/cpu/convolution_shape.h"

namespace shoal::cpu {
namespace {

struct Case {
  int64_t in_channels, out_channels, kernel, stride = 1, dilation = 1, group = 1;
};

// 14x14 maps, padded to keep their size at stride 1.
ConvolutionShape ShapeOf(const Case& c) {
  ConvolutionShape s = {};
  s.batch = 2;
  s.in_channels = c.in_channels;
  s.out_channels = c.out_channels;
  s.group = c.group;
  for (int a = 0; a < 2; ++a) {
    s.window.kernel[a] = c.kernel;
    s.window.stride[a] = c.stride;
    s.window.dilation[a] = c.dilation;
    s.window.pad_before[a] = s.window.pad_after[a] = c.dilation * (c.kernel - 1) / 2;
    s.in_size[a] = 14;
    s.out_size[a] = s.window.OutputSize(a, s.in_size[a]);
  }
  return s;
}

Layout LayoutOf(int64_t channels, bool blocked) {
  return blocked && channels % 16 == 0 ? Layout::kBlocked16 : Layout::kPlain;
}

class NoReferenceTest : public testing::TestWithParam<Case> {};

TEST_P(NoReferenceTest, NoProductRunsOnOnednnsReferenceLoops) {
  const Case& c = GetParam();
  for (const auto product : {ConvolutionProduct::kForward, ConvolutionProduct::kInputGradient,
                             ConvolutionProduct::kWeightGradient}) {
    for (const bool blocked : {false, true}) {
      ConvolutionOptions options;
      options.product = product;
      options.shape = ShapeOf(c);
      options.input_layout = LayoutOf(c.in_channels, blocked);
      options.output_layout = LayoutOf(c.out_channels, blocked);
      options.has_bias = product != ConvolutionProduct::kInputGradient;
      options.relu = product == ConvolutionProduct::kForward;
      const auto convolution = CreateOnednnConvolution(options);
      ASSERT_TRUE(convolution.ok()) << convolution.status();
      EXPECT_FALSE(absl::StartsWith((*convolution)->implementation(), "ref"))
          << (*convolution)->implementation() << " product " << static_cast<int>(product)
          << " blocked " << blocked;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NoReferenceTest,
    testing::Values(Case{1, 6, 5}, Case{1, 16, 5}, Case{3, 8, 3}, Case{3, 64, 7, 2}, Case{4, 16, 5},
                    Case{6, 15, 5}, Case{6, 16, 5}, Case{6, 16, 5, 2}, Case{6, 16, 1},
                    Case{6, 32, 3}, Case{8, 16, 5}, Case{12, 16, 3}, Case{12, 16, 3, 1, 2},
                    Case{15, 32, 1, 2}, Case{5, 64, 7, 2}, Case{16, 6, 5}, Case{16, 16, 5},
                    Case{17, 32, 3}, Case{20, 16, 3}, Case{24, 24, 3, 1, 1, 24},
                    Case{32, 32, 3, 2, 1, 32}, Case{24, 32, 3, 1, 1, 2}, Case{32, 64, 3, 1, 1, 2}),
    [](const testing::TestParamInfo<Case>& info) {
      const Case& c = info.param;
      return absl::StrCat(c.in_channels, "to", c.out_channels, "kernel", c.kernel, "stride",
                          c.stride, "dilation", c.dilation, "group", c.group);
    });

}  // namespace
}  // namespace shoal::cpu
