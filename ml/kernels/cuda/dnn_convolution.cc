#include "ml/kernels/cuda/dnn_convolution.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace shoal::cuda {
namespace {

// Algorithms whose order of additions does not depend on timing.
constexpr cudnnConvolutionFwdAlgo_t kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr cudnnConvolutionBwdDataAlgo_t kToImages = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr cudnnConvolutionBwdFilterAlgo_t kToWeights = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

constexpr float kOne = 1.0f, kZero = 0.0f;

int Int(int64_t value) { return static_cast<int>(value); }

}  // namespace

absl::StatusOr<std::unique_ptr<DnnConvolution>> DnnConvolution::Create(
    CudaDevice* device, const Attributes& attributes, const Shape& x, const Shape& w,
    const Shape& y, const Directions& directions, Factors factors) {
  std::unique_ptr<DnnConvolution> convolution(new DnnConvolution(device, factors));
  RETURN_IF_ERROR(convolution->Describe(attributes, x, w, y));
  RETURN_IF_ERROR(convolution->Measure(directions));
  return convolution;
}

DnnConvolution::~DnnConvolution() {
  if (convolution_ != nullptr) cudnnDestroyConvolutionDescriptor(convolution_);
  if (x_ != nullptr) cudnnDestroyTensorDescriptor(x_);
  if (y_ != nullptr) cudnnDestroyTensorDescriptor(y_);
  if (w_ != nullptr) cudnnDestroyFilterDescriptor(w_);
}

absl::Status DnnConvolution::DescribeImages(cudnnTensorDescriptor_t* descriptor,
                                            const Shape& shape) const {
  RETURN_IF_LIBRARY_ERROR(cudnnCreateTensorDescriptor(descriptor));
  RETURN_IF_LIBRARY_ERROR(cudnnSetTensor4dDescriptor(*descriptor, CUDNN_TENSOR_NCHW, factor_type(),
                                                     Int(shape.dim(0)), Int(shape.dim(1)),
                                                     Int(shape.dim(2)), Int(shape.dim(3))));
  return absl::OkStatus();
}

absl::Status DnnConvolution::Describe(const Attributes& attributes, const Shape& x, const Shape& w,
                                      const Shape& y) {
  const auto pads = attributes.GetInts("pads", {0, 0, 0, 0});
  num_x_ = Int(x.num_elements());
  num_w_ = Int(w.num_elements());
  num_y_ = Int(y.num_elements());
  is_padded_ = pads[0] != pads[2] || pads[1] != pads[3];
  Shape seen = x;
  if (is_padded_) {
    seen.set_dim(2, x.dim(2) + pads[0] + pads[2]);
    seen.set_dim(3, x.dim(3) + pads[1] + pads[3]);
    frame_ = {Int(x.dim(0) * x.dim(1)), Int(x.dim(2)),   Int(x.dim(3)), Int(pads[0]), Int(pads[1]),
              Int(seen.dim(2)),         Int(seen.dim(3))};
    padded_bytes_ = Padded256(factor_bytes() * static_cast<size_t>(frame_.padded_count()));
  }
  RETURN_IF_ERROR(DescribeImages(&x_, seen));
  RETURN_IF_ERROR(DescribeImages(&y_, y));
  RETURN_IF_LIBRARY_ERROR(cudnnCreateFilterDescriptor(&w_));
  RETURN_IF_LIBRARY_ERROR(cudnnSetFilter4dDescriptor(w_, factor_type(), CUDNN_TENSOR_NCHW,
                                                     Int(w.dim(0)), Int(w.dim(1)), Int(w.dim(2)),
                                                     Int(w.dim(3))));
  return DescribeWindow(attributes, pads);
}

absl::Status DnnConvolution::DescribeWindow(const Attributes& attributes,
                                            const std::vector<int64_t>& pads) {
  const auto strides = attributes.GetInts("strides", {1, 1});
  const auto dilations = attributes.GetInts("dilations", {1, 1});
  RETURN_IF_LIBRARY_ERROR(cudnnCreateConvolutionDescriptor(&convolution_));
  RETURN_IF_LIBRARY_ERROR(cudnnSetConvolution2dDescriptor(
      convolution_, is_padded_ ? 0 : Int(pads[0]), is_padded_ ? 0 : Int(pads[1]), Int(strides[0]),
      Int(strides[1]), Int(dilations[0]), Int(dilations[1]), CUDNN_CROSS_CORRELATION,
      CUDNN_DATA_FLOAT));
  RETURN_IF_LIBRARY_ERROR(
      cudnnSetConvolutionGroupCount(convolution_, Int(attributes.GetInt("group", 1))));
  // No TF32.
  RETURN_IF_LIBRARY_ERROR(cudnnSetConvolutionMathType(
      convolution_, is_bfloat16_ ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
  return absl::OkStatus();
}

absl::Status DnnConvolution::Measure(const Directions& directions) {
  size_t bytes = 0;
  if (directions.forward) {
    RETURN_IF_LIBRARY_ERROR(cudnnGetConvolutionForwardWorkspaceSize(
        device_.dnn(), x_, w_, convolution_, y_, kForward, &bytes));
    algorithm_bytes_ = std::max(algorithm_bytes_, bytes);
  }
  if (directions.to_images) {
    RETURN_IF_LIBRARY_ERROR(cudnnGetConvolutionBackwardDataWorkspaceSize(
        device_.dnn(), w_, y_, convolution_, x_, kToImages, &bytes));
    algorithm_bytes_ = std::max(algorithm_bytes_, bytes);
  }
  if (directions.to_weights) {
    RETURN_IF_LIBRARY_ERROR(cudnnGetConvolutionBackwardFilterWorkspaceSize(
        device_.dnn(), x_, y_, convolution_, w_, kToWeights, &bytes));
    algorithm_bytes_ = std::max(algorithm_bytes_, bytes);
  }
  if (!is_bfloat16_) return absl::OkStatus();
  const int sums = std::max({directions.forward ? num_y_ : 0, directions.to_images ? num_x_ : 0,
                             directions.to_weights ? num_w_ : 0});
  rounded_bytes_ = Padded256(factor_bytes() * static_cast<size_t>(sums));
  return absl::OkStatus();
}

const void* DnnConvolution::Padded(const void* x, void* workspace) {
  if (!is_padded_) return x;
  if (is_bfloat16_) {
    PadPlanes(device_.stream(), frame_, static_cast<const uint16_t*>(x),
              static_cast<uint16_t*>(workspace));
  } else {
    PadPlanes(device_.stream(), frame_, static_cast<const float*>(x),
              static_cast<float*>(workspace));
  }
  return workspace;
}

void* DnnConvolution::Sums(float* result, void* workspace) const {
  return is_bfloat16_ ? static_cast<char*>(workspace) + padded_bytes_ : static_cast<void*>(result);
}

void DnnConvolution::Widen(const void* sums, int count, float* result) {
  if (!is_bfloat16_) return;
  WidenBfloat16(device_.stream(), static_cast<const uint16_t*>(sums), count, result);
}

void DnnConvolution::Forward(const void* x, const void* w, float* y, void* workspace) {
  void* sums = Sums(y, workspace);
  device_.Note(cudnnConvolutionForward(device_.dnn(), &kOne, x_, Padded(x, workspace), w_, w,
                                       convolution_, kForward, ForAlgorithm(workspace),
                                       algorithm_bytes_, &kZero, y_, sums));
  Widen(sums, num_y_, y);
}

void DnnConvolution::ToImages(const void* dy, const void* w, float* dx, void* workspace) {
  void* sums = Sums(dx, workspace);
  void* seen = is_padded_ ? workspace : sums;
  device_.Note(cudnnConvolutionBackwardData(device_.dnn(), &kOne, w_, w, y_, dy, convolution_,
                                            kToImages, ForAlgorithm(workspace), algorithm_bytes_,
                                            &kZero, x_, seen));
  if (is_padded_ && is_bfloat16_) {
    CropPlanes(device_.stream(), frame_, static_cast<const uint16_t*>(seen),
               static_cast<uint16_t*>(sums));
  } else if (is_padded_) {
    CropPlanes(device_.stream(), frame_, static_cast<const float*>(seen), dx);
  }
  Widen(sums, num_x_, dx);
}

void DnnConvolution::ToWeights(const void* x, const void* dy, float* dw, void* workspace) {
  void* sums = Sums(dw, workspace);
  device_.Note(cudnnConvolutionBackwardFilter(device_.dnn(), &kOne, x_, Padded(x, workspace), y_,
                                              dy, convolution_, kToWeights, ForAlgorithm(workspace),
                                              algorithm_bytes_, &kZero, w_, sums));
  Widen(sums, num_w_, dw);
}

}  // namespace shoal::cuda
