// One convolution of NCHW images by cuDNN, in its three directions, prepared for its shapes.
#ifndef SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_

#include <cudnn.h>

#include <memory>

#include "absl/status/statusor.h"

#include "ml/graph/attributes.h"
#include "ml/kernels/cuda/cuda_device.h"
#include "ml/kernels/cuda/fused_loops.h"
#include "ml/tensor/shape.h"

namespace shoal::cuda {

// Algorithms are the ones that give the same bytes in every run. cuDNN knows pads that are alike on
// both sides; others are made by copying the images into larger ones.
class DnnConvolution {
 public:
  struct Directions {
    bool forward = false, to_images = false, to_weights = false;
  };
  // Attributes and shapes as those of Conv: x[n,c,h,w], w[o,c/group,kh,kw], y[n,o,oh,ow].
  static absl::StatusOr<std::unique_ptr<DnnConvolution>> Create(CudaDevice* device,
                                                                const Attributes& attributes,
                                                                const Shape& x, const Shape& w,
                                                                const Shape& y,
                                                                const Directions& directions);
  ~DnnConvolution();

  size_t workspace_bytes() const { return padded_bytes_ + algorithm_bytes_; }
  void Forward(const float* x, const float* w, float* y, void* workspace);
  // dy, w -> dx and x, dy -> dw
  void ToImages(const float* dy, const float* w, float* dx, void* workspace);
  void ToWeights(const float* x, const float* dy, float* dw, void* workspace);

 private:
  explicit DnnConvolution(CudaDevice* device) : device_(*device) {}
  absl::Status Describe(const Attributes& attributes, const Shape& x, const Shape& w,
                        const Shape& y);
  absl::Status Measure(const Directions& directions);
  // x as cuDNN shall see it.
  const float* Padded(const float* x, void* workspace);
  void* AfterPadded(void* workspace) const { return static_cast<char*>(workspace) + padded_bytes_; }

  CudaDevice& device_;
  bool is_padded_ = false;
  Frame frame_;
  size_t padded_bytes_ = 0, algorithm_bytes_ = 0;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
};

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_DNN_CONVOLUTION_H_
