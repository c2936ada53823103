#include "ml/kernels/cuda/dense_kernels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/device/describe_request.h"
#include "ml/kernels/cuda/blas_product.h"
#include "ml/kernels/cuda/fused_loops.h"

namespace shoal::cuda {
namespace {

using ProductOr = absl::StatusOr<std::unique_ptr<BlasProduct>>;
using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

CudaDevice* DeviceOf(const KernelRequest& request) {
  return static_cast<CudaDevice*>(request.device);
}

size_t Padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

char* At(const KernelContext& context, size_t offset) {
  return static_cast<char*>(context.workspace) + offset;
}

// Checks that a and b have the same type, and returns whether it is bfloat16.
absl::StatusOr<bool> IsBfloat16(const KernelRequest& request) {
  const DataType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == b) return a == DataType::kBfloat16;
  return absl::UnimplementedError(
      absl::StrCat("no GPU kernel for factors of two types: ", DescribeRequest(request)));
}

// ---- MatMul: the axes before the last two are a batch

KernelOr CreateMatMul(const KernelRequest& request) {
  const Shape &a = request.inputs[0].shape, &c = request.outputs[0].shape;
  ProductShape shape;
  shape.transpose_a = request.attributes->GetBool("transpose_a", false);
  shape.transpose_b = request.attributes->GetBool("transpose_b", false);
  const int rows = c.rank() - 2;
  shape.m = c.dim(rows);
  shape.n = c.dim(rows + 1);
  shape.k = a.dim(shape.transpose_a ? rows : rows + 1);
  for (int k = 0; k < rows; ++k) shape.batch *= c.dim(k);
  shape.shares_b = request.inputs[1].shape.rank() < a.rank();
  ASSIGN_OR_RETURN(shape.is_bfloat16, IsBfloat16(request));
  ASSIGN_OR_RETURN(std::shared_ptr<BlasProduct> product,
                   BlasProduct::Create(DeviceOf(request), shape, Epilogue::kNone));
  return MakeKernel(product->workspace_bytes(), [product](const KernelContext& c) {
    product->Run(c.inputs[0], c.inputs[1], Out<float>(c, 0), nullptr, c.workspace);
  });
}

// ---- Dense: x[m,k], w[k,n], optional bias ([n] or scalar) -> y

// Makes the product with as much of bias and activation in its epilogue as cuBLASLt supports; a
// loop does the rest.
struct DensePlan {
  std::shared_ptr<BlasProduct> product;
  bool has_bias = false, is_scalar = false;
  bool adds_bias = false;                          // in the epilogue
  Activation left_activation = Activation::kNone;  // for the loop
};

absl::StatusOr<DensePlan> PlanDense(const KernelRequest& request, const ProductShape& shape) {
  DensePlan plan;
  const Activation activation = ActivationOf(*request.attributes);
  plan.has_bias = request.inputs.size() > 2;
  plan.is_scalar = plan.has_bias && request.inputs[2].shape.rank() == 0;
  const bool is_relu = activation == Activation::kRelu;
  const Epilogue epilogue = plan.has_bias ? (is_relu ? Epilogue::kBiasRelu : Epilogue::kBias)
                                          : (is_relu ? Epilogue::kRelu : Epilogue::kNone);
  ProductOr fused = BlasProduct::Create(DeviceOf(request), shape, epilogue);
  if (fused.ok()) {
    plan.product = *std::move(fused);
    plan.adds_bias = plan.has_bias;
    plan.left_activation = is_relu ? Activation::kNone : activation;
    return plan;
  }
  ASSIGN_OR_RETURN(plan.product, BlasProduct::Create(DeviceOf(request), shape, Epilogue::kNone));
  plan.left_activation = activation;
  return plan;
}

KernelOr CreateDense(const KernelRequest& request) {
  ProductShape shape;
  shape.m = request.inputs[0].shape.dim(0);
  shape.k = request.inputs[0].shape.dim(1);
  shape.n = request.inputs[1].shape.dim(1);
  ASSIGN_OR_RETURN(shape.is_bfloat16, IsBfloat16(request));
  ASSIGN_OR_RETURN(const DensePlan plan, PlanDense(request, shape));
  const ChannelView view{static_cast<int>(shape.m), static_cast<int>(shape.n), 1};
  // A bias of one number is written out before: the epilogue wants one per column.
  const size_t bias_bytes =
      plan.adds_bias && plan.is_scalar ? Padded(sizeof(float) * static_cast<size_t>(shape.n)) : 0;
  return MakeKernel(bias_bytes + plan.product->workspace_bytes(), [=](const KernelContext& c) {
    const float* bias = plan.has_bias ? In<float>(c, 2) : nullptr;
    if (bias_bytes > 0) {
      auto* columns = reinterpret_cast<float*>(At(c, 0));
      Repeat(c.stream, bias, view.channels, columns);
      bias = columns;
    }
    plan.product->Run(c.inputs[0], c.inputs[1], Out<float>(c, 0), bias, At(c, bias_bytes));
    const bool is_bias_left = plan.has_bias && !plan.adds_bias;
    if (!is_bias_left && plan.left_activation == Activation::kNone) return;
    ChannelView rest = view;
    if (plan.is_scalar) rest = {1, 1, view.count()};
    AddBiasAndActivate(c.stream, rest, is_bias_left ? bias : nullptr, plan.left_activation,
                       Out<float>(c, 0));
  });
}

// ---- DenseGrad: x, w, y, dy -> dx, dw, dbias, and with has_input_bias the sums of dx

// The gradient of a bias: the number of its output, and the shape in which it sums dz.
struct BiasSums {
  int output = -1;  // not needed
  ChannelView view;
};

struct DenseGradPlan {
  Activation activation = Activation::kNone;
  bool input_relu = false;
  bool sums_in_epilogue = false;  // the bias's gradient comes with dw
  bool needs_dx = false;          // as an output
  BiasSums bias, input_bias;
  int dz_count = 0, dx_count = 0;
  std::shared_ptr<BlasProduct> input, weights;        // null: not needed
  size_t dz_bytes = 0, dx_bytes = 0, rest_bytes = 0;  // of the workspace
};

BiasSums SumsFor(const KernelRequest& request, size_t output, int rows, int columns) {
  BiasSums sums;
  if (output >= request.outputs.size() || !request.output_needed[output]) return sums;
  const bool is_scalar = request.outputs[output].shape.num_elements() == 1;
  sums.output = static_cast<int>(output);
  sums.view = is_scalar ? ChannelView{1, 1, rows * columns} : ChannelView{rows, columns, 1};
  return sums;
}

absl::Status PlanProducts(const KernelRequest& request, DenseGradPlan* plan) {
  const int64_t m = request.inputs[0].shape.dim(0), k = request.inputs[0].shape.dim(1);
  const int64_t n = request.inputs[1].shape.dim(1);
  if (plan->needs_dx || plan->input_bias.output >= 0) {
    const ProductShape shape{m, k, n, false, true};
    ASSIGN_OR_RETURN(plan->input, BlasProduct::Create(DeviceOf(request), shape, Epilogue::kNone));
    plan->rest_bytes = plan->input->workspace_bytes();
  }
  if (!request.output_needed[1]) return absl::OkStatus();
  const ProductShape shape{k, n, m, true, false};
  if (plan->bias.output >= 0 && plan->bias.view.channels > 1) {
    ProductOr with_sums = BlasProduct::Create(DeviceOf(request), shape, Epilogue::kColumnSumsOfB);
    plan->sums_in_epilogue = with_sums.ok();
    if (with_sums.ok()) plan->weights = *std::move(with_sums);
  }
  if (plan->weights == nullptr) {
    ASSIGN_OR_RETURN(plan->weights, BlasProduct::Create(DeviceOf(request), shape, Epilogue::kNone));
  }
  plan->rest_bytes = std::max(plan->rest_bytes, plan->weights->workspace_bytes());
  return absl::OkStatus();
}

absl::StatusOr<DenseGradPlan> PlanDenseGrad(const KernelRequest& request) {
  DenseGradPlan plan;
  plan.activation = ActivationOf(*request.attributes);
  plan.input_relu = request.attributes->GetBool("input_relu", false);
  plan.needs_dx = request.output_needed[0];
  const Shape &x = request.inputs[0].shape, &dy = request.inputs[3].shape;
  const bool has_input_bias = request.attributes->GetBool("has_input_bias", false);
  const size_t num_outputs = request.outputs.size() - (has_input_bias ? 1 : 0);
  const int rows = static_cast<int>(x.dim(0));
  if (num_outputs > 2) plan.bias = SumsFor(request, 2, rows, static_cast<int>(dy.dim(1)));
  if (has_input_bias) {
    plan.input_bias = SumsFor(request, num_outputs, rows, static_cast<int>(x.dim(1)));
  }
  plan.dz_count = Count(request.inputs[3]);
  plan.dx_count = Count(request.inputs[0]);
  if (plan.activation != Activation::kNone) {
    plan.dz_bytes = Padded(sizeof(float) * static_cast<size_t>(plan.dz_count));
  }
  if (!plan.needs_dx && plan.input_bias.output >= 0) {
    plan.dx_bytes = Padded(sizeof(float) * static_cast<size_t>(plan.dx_count));
  }
  RETURN_IF_ERROR(PlanProducts(request, &plan));
  for (const BiasSums* sums : {&plan.bias, &plan.input_bias}) {
    plan.rest_bytes = std::max(plan.rest_bytes, SumChannelsWorkspace(sums->view));
  }
  return plan;
}

void RunDenseGrad(const DenseGradPlan& plan, const KernelContext& c) {
  const float *x = In<float>(c, 0), *w = In<float>(c, 1), *dz = In<float>(c, 3);
  if (plan.activation != Activation::kNone) {
    auto* before = reinterpret_cast<float*>(At(c, 0));
    UndoActivation(c.stream, plan.dz_count, plan.activation, In<float>(c, 2), dz, before);
    dz = before;
  }
  void* workspace = At(c, plan.dz_bytes + plan.dx_bytes);
  if (plan.weights != nullptr) {
    float* sums = plan.sums_in_epilogue ? Out<float>(c, plan.bias.output) : nullptr;
    plan.weights->Run(x, dz, Out<float>(c, 1), sums, workspace);
  }
  if (plan.bias.output >= 0 && !plan.sums_in_epilogue) {
    SumChannels(c.stream, plan.bias.view, dz, workspace, Out<float>(c, plan.bias.output));
  }
  if (plan.input == nullptr) return;
  auto* dx = plan.needs_dx ? Out<float>(c, 0) : reinterpret_cast<float*>(At(c, plan.dz_bytes));
  plan.input->Run(dz, w, dx, nullptr, workspace);
  if (plan.input_relu) UndoRelu(c.stream, plan.dx_count, x, dx);
  if (plan.input_bias.output < 0) return;
  SumChannels(c.stream, plan.input_bias.view, dx, workspace, Out<float>(c, plan.input_bias.output));
}

KernelOr CreateDenseGrad(const KernelRequest& request) {
  ASSIGN_OR_RETURN(const DenseGradPlan plan, PlanDenseGrad(request));
  return MakeKernel(plan.dz_bytes + plan.dx_bytes + plan.rest_bytes,
                    [plan](const KernelContext& c) { RunDenseGrad(plan, c); });
}

constexpr LoopOp kOps[] = {
    {"Dense", "ppf:f", &CreateDense},
    {"DenseGrad", "f:f", &CreateDenseGrad},
    {"MatMul", "pp:f", &CreateMatMul},
};

}  // namespace

absl::Span<const LoopOp> DenseOps() { return kOps; }

}  // namespace shoal::cuda
