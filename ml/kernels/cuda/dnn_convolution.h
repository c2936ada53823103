// One convolution of NCHW images by cuDNN, in its three directions, prepared for its shapes.
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

// The place of one part of a workspace: what follows it is aligned as memory of its own would be.
inline size_t Padded256(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Algorithms are the ones that give the same bytes in every run. cuDNN knows pads that are alike on
// both sides; others are made by copying the images into larger ones.
class DnnConvolution {
 public:
  struct Directions {
    bool forward = false, to_images = false, to_weights = false;
  };
  // The type of inputs; outputs are float32. For bfloat16 cuDNN adds the products as floats and
  // rounds the sums to bfloat16; they lie in the workspace and are widened from there.
  enum class Factors { kFloat32, kBfloat16 };
  // Attributes and shapes as those of Conv: x[n,c,h,w], w[o,c/group,kh,kw], y[n,o,oh,ow].
  static absl::StatusOr<std::unique_ptr<DnnConvolution>> Create(
      CudaDevice* device, const Attributes& attributes, const Shape& x, const Shape& w,
      const Shape& y, const Directions& directions, Factors factors);
  ~DnnConvolution();

  size_t workspace_bytes() const { return padded_bytes_ + rounded_bytes_ + algorithm_bytes_; }
  void Forward(const void* x, const void* w, float* y, void* workspace);
  // dy, w -> dx and x, dy -> dw
  void ToImages(const void* dy, const void* w, float* dx, void* workspace);
  void ToWeights(const void* x, const void* dy, float* dw, void* workspace);

 private:
  DnnConvolution(CudaDevice* device, Factors factors)
      : device_(*device), is_bfloat16_(factors == Factors::kBfloat16) {}
  size_t factor_bytes() const { return is_bfloat16_ ? sizeof(uint16_t) : sizeof(float); }
  cudnnDataType_t factor_type() const {
    return is_bfloat16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  }
  absl::Status Describe(const Attributes& attributes, const Shape& x, const Shape& w,
                        const Shape& y);
  absl::Status DescribeWindow(const Attributes& attributes, const std::vector<int64_t>& pads);
  absl::Status DescribeImages(cudnnTensorDescriptor_t* descriptor, const Shape& shape) const;
  absl::Status Measure(const Directions& directions);
  // x as cuDNN shall see it.
  const void* Padded(const void* x, void* workspace);
  // The place where cuDNN puts the sums that become `result`.
  void* Sums(float* result, void* workspace) const;
  void Widen(const void* sums, int count, float* result);
  void* ForAlgorithm(void* workspace) const {
    return static_cast<char*>(workspace) + padded_bytes_ + rounded_bytes_;
  }

  CudaDevice& device_;
  const bool is_bfloat16_;
  bool is_padded_ = false;
  Frame frame_;
  int num_x_ = 0, num_w_ = 0, num_y_ = 0;  // elements
  size_t padded_bytes_ = 0, rounded_bytes_ = 0, algorithm_bytes_ = 0;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
};

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_
