// Computes one product of a convolution: forward, gradient of the input, or gradient of the
// weights. The buffers are in the layouts of ml/tensor. The algorithms are oneDNN's
// (onednn_convolution.h) and one matrix product for each tap, which is a position in the kernel's
// window (tap_convolution.h).
#ifndef SHOAL_ML_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_
#define SHOAL_ML_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_

#include <cstddef>
#include <string>

#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal::cpu {

enum class ConvolutionProduct { kForward, kInputGradient, kWeightGradient };

struct ConvolutionOptions {
  ConvolutionProduct product = ConvolutionProduct::kForward;
  ConvolutionShape shape;
  Layout input_layout = Layout::kPlain;   // the layout of x and dx
  Layout output_layout = Layout::kPlain;  // the layout of y and dy
  bool has_bias = false;  // forward: adds it; weight gradient: computes its gradient
  bool relu = false;      // forward
  bool relu6 = false;     // forward
  bool winograd = false;  // 3x3 with stride 1 only
  // Allows CreatePreferredConvolution to use Winograd. Set it only for gradients of convolutions
  // without a bias in front of a batch norm, whose own rounding errors are larger. Measurements as
  // in ml/nn:golden_gradients_test, with offsets of batch norms around 0, showed why: with Winograd
  // in the forward pass, the error of ResNet-18's gradients is 2.0 to 2.7 times PyTorch's instead
  // of 1.0 to 1.3 times; with Winograd in the gradients of VGG-16, it is up to 4 times PyTorch's.
  bool allow_winograd = false;
  int threads = 1;
};

// Made once and run many times. Not thread-safe.
class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;

  virtual size_t workspace_bytes() const = 0;
  // Packs weights [out, in / group, height, width] into the workspace, from which Run reads them.
  // Not for weight gradients.
  virtual void PackWeights(const float* weights, char* workspace) = 0;
  // The memory of one call. kForward reads `input` (x) and `bias` and writes `result` (y).
  // kInputGradient reads `output` (dy) and writes `result` (dx). kWeightGradient reads `input` (x)
  // and `output` (dy) and writes `result` (dw, in the plain layout) and, with has_bias,
  // `bias_gradient`.
  struct Buffers {
    const float* input = nullptr;
    const float* output = nullptr;
    const float* bias = nullptr;
    float* result = nullptr;  // y, dx or dw
    float* bias_gradient = nullptr;
  };
  virtual void Run(const Buffers& buffers, char* workspace) = 0;

  // Returns the name of the algorithm. Those of oneDNN are the names of the implementations that it
  // chose; "ref..." is its slow reference.
  virtual std::string implementation() const = 0;
};

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_CONVOLUTION_PRIMITIVE_H_
