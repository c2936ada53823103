#include "ml/kernels/cuda/dnn_convolution.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace shoal::cuda {
namespace {

// None of these adds in an order that depends on time.
constexpr cudnnConvolutionFwdAlgo_t kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr cudnnConvolutionBwdDataAlgo_t kToImages = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr cudnnConvolutionBwdFilterAlgo_t kToWeights = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

constexpr float kOne = 1.0f, kZero = 0.0f;

int Int(int64_t value) { return static_cast<int>(value); }

absl::Status DescribeImages(cudnnTensorDescriptor_t* descriptor, const Shape& shape) {
  RETURN_IF_LIBRARY_ERROR(cudnnCreateTensorDescriptor(descriptor));
  RETURN_IF_LIBRARY_ERROR(cudnnSetTensor4dDescriptor(
      *descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, Int(shape.dim(0)), Int(shape.dim(1)),
      Int(shape.dim(2)), Int(shape.dim(3))));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DnnConvolution>> DnnConvolution::Create(
    CudaDevice* device, const Attributes& attributes, const Shape& x, const Shape& w,
    const Shape& y, const Directions& directions) {
  std::unique_ptr<DnnConvolution> convolution(new DnnConvolution(device));
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

absl::Status DnnConvolution::Describe(const Attributes& attributes, const Shape& x, const Shape& w,
                                      const Shape& y) {
  const auto strides = attributes.GetInts("strides", {1, 1});
  const auto pads = attributes.GetInts("pads", {0, 0, 0, 0});
  const auto dilations = attributes.GetInts("dilations", {1, 1});
  is_padded_ = pads[0] != pads[2] || pads[1] != pads[3];
  Shape seen = x;
  if (is_padded_) {
    seen.set_dim(2, x.dim(2) + pads[0] + pads[2]);
    seen.set_dim(3, x.dim(3) + pads[1] + pads[3]);
    frame_ = {Int(x.dim(0) * x.dim(1)), Int(x.dim(2)),   Int(x.dim(3)), Int(pads[0]), Int(pads[1]),
              Int(seen.dim(2)),         Int(seen.dim(3))};
    padded_bytes_ = (sizeof(float) * static_cast<size_t>(frame_.padded_count()) + 255) / 256 * 256;
  }
  RETURN_IF_ERROR(DescribeImages(&x_, seen));
  RETURN_IF_ERROR(DescribeImages(&y_, y));
  RETURN_IF_LIBRARY_ERROR(cudnnCreateFilterDescriptor(&w_));
  RETURN_IF_LIBRARY_ERROR(cudnnSetFilter4dDescriptor(w_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                                     Int(w.dim(0)), Int(w.dim(1)), Int(w.dim(2)),
                                                     Int(w.dim(3))));
  RETURN_IF_LIBRARY_ERROR(cudnnCreateConvolutionDescriptor(&convolution_));
  RETURN_IF_LIBRARY_ERROR(cudnnSetConvolution2dDescriptor(
      convolution_, is_padded_ ? 0 : Int(pads[0]), is_padded_ ? 0 : Int(pads[1]), Int(strides[0]),
      Int(strides[1]), Int(dilations[0]), Int(dilations[1]), CUDNN_CROSS_CORRELATION,
      CUDNN_DATA_FLOAT));
  RETURN_IF_LIBRARY_ERROR(
      cudnnSetConvolutionGroupCount(convolution_, Int(attributes.GetInt("group", 1))));
  // No TF32.
  RETURN_IF_LIBRARY_ERROR(cudnnSetConvolutionMathType(convolution_, CUDNN_FMA_MATH));
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
  return absl::OkStatus();
}

const float* DnnConvolution::Padded(const float* x, void* workspace) {
  if (!is_padded_) return x;
  auto* padded = static_cast<float*>(workspace);
  PadPlanes(device_.stream(), frame_, x, padded);
  return padded;
}

void DnnConvolution::Forward(const float* x, const float* w, float* y, void* workspace) {
  device_.Note(cudnnConvolutionForward(device_.dnn(), &kOne, x_, Padded(x, workspace), w_, w,
                                       convolution_, kForward, AfterPadded(workspace),
                                       algorithm_bytes_, &kZero, y_, y));
}

void DnnConvolution::ToImages(const float* dy, const float* w, float* dx, void* workspace) {
  auto* seen = is_padded_ ? static_cast<float*>(workspace) : dx;
  device_.Note(cudnnConvolutionBackwardData(device_.dnn(), &kOne, w_, w, y_, dy, convolution_,
                                            kToImages, AfterPadded(workspace), algorithm_bytes_,
                                            &kZero, x_, seen));
  if (is_padded_) CropPlanes(device_.stream(), frame_, seen, dx);
}

void DnnConvolution::ToWeights(const float* x, const float* dy, float* dw, void* workspace) {
  device_.Note(cudnnConvolutionBackwardFilter(device_.dnn(), &kOne, x_, Padded(x, workspace), y_,
                                              dy, convolution_, kToWeights, AfterPadded(workspace),
                                              algorithm_bytes_, &kZero, w_, dw));
}

}  // namespace shoal::cuda
