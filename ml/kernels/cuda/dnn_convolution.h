// Computes a convolution of NCHW images of given shapes, and its two gradients, with cuDNN.
#ifndef SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/attributes.h"
#include "ml/kernels/cuda/cuda_device.h"
#include "ml/kernels/cuda/fused_loops.h"
#include "ml/tensor/shape.h"

namespace shoal::cuda {

// Rounds the size of one part of a workspace up, so that the next part is as aligned as separately
// allocated memory.
inline size_t Padded256(size_t bytes) { return (bytes + 255) / 256 * 256; }

// It uses only algorithms that give the same bytes in every run. cuDNN supports only padding that
// is equal on opposite sides; for other padding, the images are first copied into larger ones.
class DnnConvolution {
 public:
  struct Directions {
    bool forward = false, to_images = false, to_weights = false;
  };
  // The type of the inputs; outputs are float32. For bfloat16, cuDNN adds in float but writes the
  // sums as bfloat16 to the workspace, from where they are converted to float. Where cuDNN cannot
  // compute a shape so, the inputs are converted to float and cuDNN computes in float32.
  enum class Factors { kFloat32, kBfloat16 };
  // Takes the attributes and shapes of the op Conv: x[n, c, h, w], w[o, c / group, kh, kw], y[n, o,
  // oh, ow]. `directions` selects what will be computed.
  static absl::StatusOr<std::unique_ptr<DnnConvolution>> Create(
      CudaDevice* device, const Attributes& attributes, const Shape& x, const Shape& w,
      const Shape& y, const Directions& directions, Factors factors);
  ~DnnConvolution();

  size_t workspace_bytes() const {
    return widened_bytes_[0] + widened_bytes_[1] + padded_bytes_ + rounded_bytes_ +
           algorithm_bytes_;
  }
  void Forward(const void* x, const void* w, float* y, void* workspace);
  // Compute dx and dw. Like Forward, they enqueue the work on the compute stream.
  void ToImages(const void* dy, const void* w, float* dx, void* workspace);
  void ToWeights(const void* x, const void* dy, float* dw, void* workspace);

 private:
  // `computes_in` is the type in which cuDNN gets the factors.
  DnnConvolution(CudaDevice* device, Factors factors, Factors computes_in)
      : device_(*device),
        is_bfloat16_(computes_in == Factors::kBfloat16),
        widens_(factors != computes_in) {}
  size_t factor_bytes() const { return is_bfloat16_ ? sizeof(uint16_t) : sizeof(float); }
  cudnnDataType_t factor_type() const {
    return is_bfloat16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  }
  absl::Status Describe(const Attributes& attributes, const Shape& x, const Shape& w,
                        const Shape& y);
  absl::Status DescribeWindow(const Attributes& attributes, const std::vector<int64_t>& pads);
  absl::Status DescribeImages(cudnnTensorDescriptor_t* descriptor, const Shape& shape) const;
  absl::Status ChooseAlgorithms(const Directions& directions);
  // Plans the parts of the workspace for widened factors and for rounded sums.
  void PlanWorkspace(const Directions& directions);
  // Returns the factor to pass to cuDNN: the given one, or its widened copy in part 0 or 1 of the
  // workspace.
  const void* Widened(const void* factor, int count, int part, void* workspace);
  // Returns the images to pass to cuDNN: x, or its padded copy in the workspace.
  const void* Padded(const void* x, void* workspace);
  char* ForPadded(void* workspace) const {
    return static_cast<char*>(workspace) + widened_bytes_[0] + widened_bytes_[1];
  }
  // Returns where cuDNN writes the sums: `result`, or for bfloat16 a part of the workspace.
  void* Sums(float* result, void* workspace) const;
  void Widen(const void* sums, int count, float* result);
  void* ForAlgorithm(void* workspace) const {
    return ForPadded(workspace) + padded_bytes_ + rounded_bytes_;
  }

  CudaDevice& device_;
  const bool is_bfloat16_;  // for cuDNN
  const bool widens_;       // the factors of the kernel are bfloat16, those of cuDNN float32
  bool is_padded_ = false;
  Frame frame_;
  int num_x_ = 0, num_w_ = 0, num_y_ = 0;  // elements
  size_t widened_bytes_[2] = {0, 0}, padded_bytes_ = 0, rounded_bytes_ = 0, algorithm_bytes_ = 0;
  cudnnConvolutionFwdAlgo_t forward_ = {};
  cudnnConvolutionBwdDataAlgo_t to_images_ = {};
  cudnnConvolutionBwdFilterAlgo_t to_weights_ = {};
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
};

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_
