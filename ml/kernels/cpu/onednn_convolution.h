// One product of a convolution (forward, gradient of the input, gradient of the weights) as a
// oneDNN primitive between buffers in our own layouts. Where the primitive wants another order of
// elements, it is reordered in the workspace.
#ifndef SHOAL_ML_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_ONEDNN_CONVOLUTION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal::cpu {

enum class ConvolutionProduct { kForward, kInputGradient, kWeightGradient };

struct ConvolutionOptions {
  ConvolutionProduct product = ConvolutionProduct::kForward;
  ConvolutionShape shape;
  Layout input_layout = Layout::kPlain;   // of x and dx
  Layout output_layout = Layout::kPlain;  // of y and dy
  bool has_bias = false;  // forward: adds it; weight gradient: computes its gradient
  bool relu = false;      // forward
  bool relu6 = false;     // forward
  bool winograd = false;  // 3x3 with stride 1 only
  // Gradients may be by Winograd, for CreatePreferredConvolution: those of convolutions without a
  // bias, in front of a batch norm, whose own noise is larger. Elsewhere it was measured (as
  // ml/nn:golden_gradients_test does, with offsets of batch norms around 0) to give ResNet-18's
  // gradients 2.0 to 2.7 times PyTorch's error when used forward, instead of 1.0 to 1.3, and
  // VGG-16's up to 4 times when used in their gradients.
  bool allow_winograd = false;
  int threads = 1;
};

// Thread-compatible; made once and run many times.
class OnednnConvolution {
 public:
  static absl::StatusOr<std::unique_ptr<OnednnConvolution>> Create(
      const ConvolutionOptions& options);
  virtual ~OnednnConvolution() = default;

  virtual size_t workspace_bytes() const = 0;
  // Brings plain weights [out,in/group,h,w] into the workspace, which Run then reads. Not for
  // weight gradients.
  virtual void PackWeights(const float* weights, char* workspace) = 0;
  // kForward: input -> output, bias read. kInputGradient: output (dy) -> input (dx).
  // kWeightGradient: input and output (dy) -> weights (plain, overwritten) and bias.
  struct Buffers {
    const float* input = nullptr;
    const float* output = nullptr;
    const float* bias = nullptr;
    float* result = nullptr;  // y, dx or dw
    float* bias_gradient = nullptr;
  };
  virtual void Run(const Buffers& buffers, char* workspace) = 0;

  // The name of the implementation that oneDNN chose; "ref..." is its slow reference.
  virtual std::string implementation() const = 0;
};

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
