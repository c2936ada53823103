#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/shape_functions.h"

namespace shoal::shapes {
namespace {

struct Window {
  std::vector<int64_t> kernel, strides, pads, dilations;
};

// Reads the window of a convolution (whose kernel size is that of the weights) or of a pool
// (attribute kernel_shape).
absl::StatusOr<Window> WindowOf(const Attributes& attributes, std::vector<int64_t> kernel) {
  Window window{std::move(kernel), attributes.GetInts("strides", {1, 1}),
                attributes.GetInts("pads", {0, 0, 0, 0}), attributes.GetInts("dilations", {1, 1})};
  bool good = window.kernel.size() == 2 && window.strides.size() == 2 && window.pads.size() == 4 &&
              window.dilations.size() == 2;
  for (int i = 0; good && i < 2; ++i) {
    good = window.kernel[i] > 0 && window.strides[i] > 0 && window.dilations[i] > 0 &&
           window.pads[i] >= 0 && window.pads[i + 2] >= 0;
  }
  if (!good) {
    return absl::InvalidArgumentError(
        "kernel, strides and dilations need two positive numbers, pads [top,left,bottom,right]");
  }
  return window;
}

// Replaces the images' height and width by those of the window's output.
absl::Status SlideWindow(const Window& window, Shape* images) {
  for (int i = 0; i < 2; ++i) {
    const int64_t size = images->dim(2 + i);
    if (size < 0) continue;
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t slack = size + window.pads[i] + window.pads[i + 2] - reach;
    if (slack < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a window of ", reach, " does not fit into images of size ", size,
                       " with this padding; make the window smaller or pad the images"));
    }
    images->set_dim(2 + i, slack / window.strides[i] + 1);
  }
  return absl::OkStatus();
}

absl::Status CheckImages(const Shape& shape) {
  if (shape.rank() == 4) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs images [batch,channels,height,width], has ", shape.ToString()));
}

absl::Status PooledShape(const ShapeRequest& request, Shape* shape) {
  *shape = request.inputs[0].shape;
  RETURN_IF_ERROR(CheckImages(*shape));
  ASSIGN_OR_RETURN(const Window window,
                   WindowOf(request.attributes, request.attributes.GetInts("kernel_shape", {})));
  return SlideWindow(window, shape);
}

}  // namespace

absl::Status Conv(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  Shape shape = request.inputs[0].shape;
  const Shape& weights = request.inputs[1].shape;
  RETURN_IF_ERROR(CheckImages(shape));
  const int64_t group = request.attributes.GetInt("group", 1);
  if (weights.rank() != 4 || group < 1 || weights.dim(1) * group != shape.dim(1) ||
      weights.dim(0) % group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("weights [out,in/group,height,width] ",
                                                   weights.ToString(), " with group ", group,
                                                   " do not fit images ", shape.ToString()));
  }
  if (request.inputs.size() == 3 && request.inputs[2].shape != Shape({weights.dim(0)})) {
    return absl::InvalidArgumentError(absl::StrCat("bias must be [", weights.dim(0), "], is ",
                                                   request.inputs[2].shape.ToString()));
  }
  ASSIGN_OR_RETURN(const Window window,
                   WindowOf(request.attributes, {weights.dim(2), weights.dim(3)}));
  RETURN_IF_ERROR(SlideWindow(window, &shape));
  shape.set_dim(1, weights.dim(0));
  outputs->push_back({request.inputs[0].dtype, shape});
  return absl::OkStatus();
}

// x, w, y, dy -> dx, dw, dbias
absl::Status ConvGrad(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& weights = request.inputs[1];
  outputs->push_back(request.inputs[0]);
  outputs->push_back(weights);
  outputs->push_back({weights.dtype, Shape({weights.shape.dim(0)})});
  return absl::OkStatus();
}

// x, w [in, out / group, height, width], optional bias -> y. Padding makes y smaller.
absl::Status ConvTranspose(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  Shape shape = request.inputs[0].shape;
  const Shape& weights = request.inputs[1].shape;
  RETURN_IF_ERROR(CheckImages(shape));
  const int64_t group = request.attributes.GetInt("group", 1);
  if (weights.rank() != 4 || group < 1 || weights.dim(0) != shape.dim(1) ||
      weights.dim(0) % group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("weights [in,out/group,height,width] ",
                                                   weights.ToString(), " with group ", group,
                                                   " do not fit images ", shape.ToString()));
  }
  const int64_t channels = weights.dim(1) * group;
  if (request.inputs.size() == 3 && request.inputs[2].shape != Shape({channels})) {
    return absl::InvalidArgumentError(
        absl::StrCat("bias must be [", channels, "], is ", request.inputs[2].shape.ToString()));
  }
  ASSIGN_OR_RETURN(const Window window,
                   WindowOf(request.attributes, {weights.dim(2), weights.dim(3)}));
  const std::vector<int64_t> extra = request.attributes.GetInts("output_padding", {0, 0});
  for (int i = 0; i < 2; ++i) {
    if (extra.size() != 2 || extra[i] < 0 || extra[i] >= window.strides[i]) {
      return absl::InvalidArgumentError("output_padding needs two numbers below the strides");
    }
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t size = (shape.dim(2 + i) - 1) * window.strides[i] + reach - window.pads[i] -
                         window.pads[i + 2] + extra[i];
    if (shape.dim(2 + i) >= 0 && size < 1) {
      return absl::InvalidArgumentError("the padding leaves nothing of the output");
    }
    if (shape.dim(2 + i) >= 0) shape.set_dim(2 + i, size);
  }
  shape.set_dim(1, channels);
  outputs->push_back({request.inputs[0].dtype, shape});
  return absl::OkStatus();
}

absl::Status Images(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  RETURN_IF_ERROR(CheckImages(request.inputs[0].shape));
  outputs->push_back(request.inputs[0]);
  return absl::OkStatus();
}

// x, scale, offset -> y, mean and inv_std of each row: all dimensions from `axis` on.
absl::Status LayerNorm(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& x = request.inputs[0];
  int64_t axis = request.attributes.GetInt("axis", -1);
  if (axis < 0) axis += x.shape.rank();
  if (axis < 1 || axis >= x.shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis must be one of 1 to rank - 1 of ", x.shape.ToString()));
  }
  TensorSpec row{x.dtype, Shape()}, moments{x.dtype, Shape()};
  for (int d = 0; d < x.shape.rank(); ++d) {
    (d < axis ? moments : row).shape.AddDim(x.shape.dim(d));
  }
  if (request.inputs[1] != row || request.inputs[2] != row) {
    return absl::InvalidArgumentError(absl::StrCat("scale and offset must be ", row.ToString(),
                                                   ", are ", request.inputs[1].ToString(), " and ",
                                                   request.inputs[2].ToString()));
  }
  *outputs = {x, moments, moments};
  return absl::OkStatus();
}

absl::Status MaxPool(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  Shape shape;
  RETURN_IF_ERROR(PooledShape(request, &shape));
  outputs->push_back({request.inputs[0].dtype, shape});
  outputs->push_back({DataType::kUint8, shape});
  return absl::OkStatus();
}

absl::Status AveragePool(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  Shape shape;
  RETURN_IF_ERROR(PooledShape(request, &shape));
  outputs->push_back({request.inputs[0].dtype, shape});
  return absl::OkStatus();
}

absl::Status GlobalAveragePool(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  TensorSpec pooled = request.inputs[0];
  RETURN_IF_ERROR(CheckImages(pooled.shape));
  pooled.shape.set_dim(2, 1);
  pooled.shape.set_dim(3, 1);
  outputs->push_back(pooled);
  return absl::OkStatus();
}

absl::Status GlobalMaxPool(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  RETURN_IF_ERROR(GlobalAveragePool(request, outputs));
  outputs->push_back({DataType::kInt32, outputs->back().shape});
  return absl::OkStatus();
}

absl::Status LikeLast(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const size_t count = request.inputs.size();
  outputs->push_back({request.inputs[count - 2].dtype, request.inputs[count - 1].shape});
  return absl::OkStatus();
}

absl::Status MeanSquaredError(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  RETURN_IF_ERROR(Broadcast(request, outputs));
  outputs->back().shape = Shape();
  return absl::OkStatus();
}

absl::Status SparseSoftmaxCrossEntropy(const ShapeRequest& request,
                                       std::vector<TensorSpec>* outputs) {
  const TensorSpec& logits = request.inputs[0];
  const TensorSpec& labels = request.inputs[1];
  if (logits.shape.rank() != 2 || labels.shape.rank() != 1 || labels.dtype != DataType::kInt32) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs logits [batch,classes] and int32 labels [batch], has ",
                     logits.ToString(), " and ", labels.ToString()));
  }
  outputs->push_back({logits.dtype, Shape({logits.shape.dim(0)})});
  outputs->push_back(logits);
  return absl::OkStatus();
}

absl::Status SoftmaxCrossEntropy(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& logits = request.inputs[0];
  if (logits.shape.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs logits [batch,classes], has ", logits.ToString()));
  }
  RETURN_IF_ERROR(SameShapes(request, outputs));
  outputs->insert(outputs->begin(), {logits.dtype, Shape({logits.shape.dim(0)})});
  return absl::OkStatus();
}

absl::Status CorrectCount(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  if (request.inputs[0].shape.rank() != 2 || request.inputs[1].shape.rank() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs logits [batch,classes] and labels [batch], has ",
                     request.inputs[0].ToString(), " and ", request.inputs[1].ToString()));
  }
  outputs->push_back({DataType::kFloat32, Shape()});
  return absl::OkStatus();
}

// x, scale, offset, moving_mean, moving_variance -> y, batch_mean, batch_variance, inv_std
absl::Status BatchNorm(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& x = request.inputs[0];
  if (x.shape.rank() != 2 && x.shape.rank() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs [batch,features] or images, has ", x.ToString()));
  }
  const TensorSpec channels{x.dtype, Shape({x.shape.dim(1)})};
  for (const TensorSpec& input : request.inputs.subspan(1)) {
    if (input != channels) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameters must be ", channels.ToString(), ", one is ", input.ToString()));
    }
  }
  *outputs = {x, channels, channels, channels};
  return absl::OkStatus();
}

// x, scale, batch_mean, inv_std, dy -> dx, dscale, doffset
absl::Status BatchNormGrad(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  *outputs = {request.inputs[0], request.inputs[1], request.inputs[1]};
  return absl::OkStatus();
}

}  // namespace shoal::shapes
