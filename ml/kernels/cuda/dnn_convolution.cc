#include "ml/kernels/cuda/dnn_convolution.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"

#include "base/status_macros.h"

namespace shoal::cuda {
namespace {

// Algorithms whose order of additions does not depend on timing. The first one that cuDNN has for a
// shape is used: those that transform their inputs are less accurate and so come last.
constexpr cudnnConvolutionFwdAlgo_t kForward[] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
constexpr cudnnConvolutionBwdDataAlgo_t kToImages[] = {
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING};
constexpr cudnnConvolutionBwdFilterAlgo_t kToWeights[] = {
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING};

// Chooses the first algorithm whose workspace `measure` can measure, and raises `bytes` to its
// size. Returns the first algorithm's error if cuDNN has none of them.
template <typename Algorithm, typename Measure>
absl::Status Choose(absl::Span<const Algorithm> algorithms, const Measure& measure,
                    Algorithm* chosen, size_t* bytes) {
  absl::Status first_error;
  for (Algorithm algorithm : algorithms) {
    size_t workspace = 0;
    const absl::Status status = ToStatus(measure(algorithm, &workspace), "a convolution");
    if (status.ok()) {
      *chosen = algorithm;
      *bytes = std::max(*bytes, workspace);
      return absl::OkStatus();
    }
    first_error.Update(status);
  }
  return first_error;
}

constexpr float kOne = 1.0f, kZero = 0.0f;

int Int(int64_t value) { return static_cast<int>(value); }

}  // namespace

absl::StatusOr<std::unique_ptr<DnnConvolution>> DnnConvolution::Create(
    CudaDevice* device, const Attributes& attributes, const Shape& x, const Shape& w,
    const Shape& y, const Directions& directions, Factors factors) {
  absl::Status error;
  for (Factors computes_in : {factors, Factors::kFloat32}) {
    std::unique_ptr<DnnConvolution> convolution(new DnnConvolution(device, factors, computes_in));
    RETURN_IF_ERROR(convolution->Describe(attributes, x, w, y));
    const absl::Status status = convolution->ChooseAlgorithms(directions);
    if (status.ok()) {
      convolution->PlanWorkspace(directions);
      return convolution;
    }
    error.Update(status);
    if (factors == Factors::kFloat32) break;  // nothing else is left to try
  }
  return error;
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

absl::Status DnnConvolution::ChooseAlgorithms(const Directions& directions) {
  const auto measure_forward = [this](cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(device_.dnn(), x_, w_, convolution_, y_,
                                                   algorithm, bytes);
  };
  const auto measure_to_images = [this](cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(device_.dnn(), w_, y_, convolution_, x_,
                                                        algorithm, bytes);
  };
  const auto measure_to_weights = [this](cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(device_.dnn(), x_, y_, convolution_, w_,
                                                          algorithm, bytes);
  };
  if (directions.forward) {
    RETURN_IF_ERROR(
        Choose(absl::MakeConstSpan(kForward), measure_forward, &forward_, &algorithm_bytes_));
  }
  if (directions.to_images) {
    RETURN_IF_ERROR(
        Choose(absl::MakeConstSpan(kToImages), measure_to_images, &to_images_, &algorithm_bytes_));
  }
  if (directions.to_weights) {
    RETURN_IF_ERROR(Choose(absl::MakeConstSpan(kToWeights), measure_to_weights, &to_weights_,
                           &algorithm_bytes_));
  }
  return absl::OkStatus();
}

void DnnConvolution::PlanWorkspace(const Directions& directions) {
  const int images = std::max(directions.forward || directions.to_weights ? num_x_ : 0,
                              directions.to_images ? num_y_ : 0);
  const int others = std::max(directions.forward || directions.to_images ? num_w_ : 0,
                              directions.to_weights ? num_y_ : 0);
  if (widens_) {
    widened_bytes_[0] = Padded256(sizeof(float) * static_cast<size_t>(images));
    widened_bytes_[1] = Padded256(sizeof(float) * static_cast<size_t>(others));
  }
  if (!is_bfloat16_) return;
  const int sums = std::max({directions.forward ? num_y_ : 0, directions.to_images ? num_x_ : 0,
                             directions.to_weights ? num_w_ : 0});
  rounded_bytes_ = Padded256(factor_bytes() * static_cast<size_t>(sums));
}

const void* DnnConvolution::Widened(const void* factor, int count, int part, void* workspace) {
  if (!widens_) return factor;
  auto* to =
      reinterpret_cast<float*>(static_cast<char*>(workspace) + (part == 0 ? 0 : widened_bytes_[0]));
  WidenBfloat16(device_.stream(), static_cast<const uint16_t*>(factor), count, to);
  return to;
}

const void* DnnConvolution::Padded(const void* x, void* workspace) {
  if (!is_padded_) return x;
  char* padded = ForPadded(workspace);
  if (is_bfloat16_) {
    PadPlanes(device_.stream(), frame_, static_cast<const uint16_t*>(x),
              reinterpret_cast<uint16_t*>(padded));
  } else {
    PadPlanes(device_.stream(), frame_, static_cast<const float*>(x),
              reinterpret_cast<float*>(padded));
  }
  return padded;
}

void* DnnConvolution::Sums(float* result, void* workspace) const {
  return is_bfloat16_ ? ForPadded(workspace) + padded_bytes_ : static_cast<void*>(result);
}

void DnnConvolution::Widen(const void* sums, int count, float* result) {
  if (!is_bfloat16_) return;
  WidenBfloat16(device_.stream(), static_cast<const uint16_t*>(sums), count, result);
}

void DnnConvolution::Forward(const void* x, const void* w, float* y, void* workspace) {
  x = Widened(x, num_x_, 0, workspace);
  w = Widened(w, num_w_, 1, workspace);
  void* sums = Sums(y, workspace);
  device_.Note(cudnnConvolutionForward(device_.dnn(), &kOne, x_, Padded(x, workspace), w_, w,
                                       convolution_, forward_, ForAlgorithm(workspace),
                                       algorithm_bytes_, &kZero, y_, sums));
  Widen(sums, num_y_, y);
}

void DnnConvolution::ToImages(const void* dy, const void* w, float* dx, void* workspace) {
  dy = Widened(dy, num_y_, 0, workspace);
  w = Widened(w, num_w_, 1, workspace);
  void* sums = Sums(dx, workspace);
  void* seen = is_padded_ ? ForPadded(workspace) : sums;
  device_.Note(cudnnConvolutionBackwardData(device_.dnn(), &kOne, w_, w, y_, dy, convolution_,
                                            to_images_, ForAlgorithm(workspace), algorithm_bytes_,
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
  x = Widened(x, num_x_, 0, workspace);
  dy = Widened(dy, num_y_, 1, workspace);
  void* sums = Sums(dw, workspace);
  device_.Note(cudnnConvolutionBackwardFilter(
      device_.dnn(), &kOne, x_, Padded(x, workspace), y_, dy, convolution_, to_weights_,
      ForAlgorithm(workspace), algorithm_bytes_, &kZero, w_, sums));
  Widen(sums, num_w_, dw);
}

}  // namespace shoal::cuda
