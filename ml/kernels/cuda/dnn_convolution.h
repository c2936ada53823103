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
  // sums as bfloat16 to the workspace, from where they are converted to float.
  enum class Factors { kFloat32, kBfloat16 };
  // Takes the attributes and shapes of the op Conv: x[n, c, h, w], w[o, c / group, kh, kw], y[n, o,
  // oh, ow]. `directions` selects what will be computed.
  static absl::StatusOr<std::unique_ptr<DnnConvolution>> Create(
      CudaDevice* device, const Attributes& attributes, const Shape& x, const Shape& w,
      const Shape& y, const Directions& directions, Factors factors);
  ~DnnConvolution();

  size_t workspace_bytes() const { return padded_bytes_ + rounded_bytes_ + algorithm_bytes_; }
  void Forward(const void* x, const void* w, float* y, void* workspace);
  // Compute dx and dw. Like Forward, they enqueue the work on the compute stream.
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
  // Returns the images to pass to cuDNN: x, or its padded copy in the workspace.
  const void* Padded(const void* x, void* workspace);
  // Returns where cuDNN writes the sums: `result`, or for bfloat16 a part of the workspace.
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
