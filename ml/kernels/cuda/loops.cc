#include "ml/kernels/cuda/loops.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/device/describe_request.h"

namespace shoal::cuda {
namespace {

// Adds a dimension inside the others, and merges it with the last one if both are contiguous.
void AddInner(Walk* walk, int dim, int step) {
  if (dim == 1) return;
  if (walk->rank > 0 && walk->steps[walk->rank - 1] == dim * step) {
    walk->dims[walk->rank - 1] *= dim;
    walk->steps[walk->rank - 1] = step;
    return;
  }
  walk->dims[walk->rank] = dim;
  walk->steps[walk->rank] = step;
  ++walk->rank;
}

const LoopOp* FindLoop(const std::vector<absl::Span<const LoopOp>>& families,
                       absl::string_view name) {
  for (absl::Span<const LoopOp> family : families) {
    for (const LoopOp& op : family) {
      if (name == op.name) return &op;
    }
  }
  return nullptr;
}

bool IsOfType(char letter, DataType dtype) {
  switch (letter) {
    case 'f':
      return dtype == DataType::kFloat32;
    case 'i':
      return dtype == DataType::kInt32;
    case 'n':
      return dtype == DataType::kInt32 || dtype == DataType::kInt64;
    case 'u':
      return dtype == DataType::kUint8;
    case 'b':
      return dtype == DataType::kBool;
    case 'p':
      return dtype == DataType::kFloat32 || dtype == DataType::kBfloat16;
    case 'a':
      return true;
    default:
      return dtype != DataType::kBfloat16;
  }
}

bool SideFits(absl::string_view letters, absl::Span<const TensorSpec> specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!IsOfType(letters[std::min(i, letters.size() - 1)], specs[i].dtype)) return false;
  }
  return true;
}

}  // namespace

bool TypesFit(absl::string_view types, absl::Span<const TensorSpec> inputs,
              absl::Span<const TensorSpec> outputs) {
  const size_t colon = types.find(':');
  return SideFits(types.substr(0, colon), inputs) && SideFits(types.substr(colon + 1), outputs);
}

bool HasLoop(const std::vector<absl::Span<const LoopOp>>& families, absl::string_view op,
             absl::Span<const TensorSpec> inputs, absl::Span<const TensorSpec> outputs) {
  const LoopOp* loop = FindLoop(families, op);
  return loop != nullptr && TypesFit(loop->types, inputs, outputs);
}

absl::Status CheckSizes(const KernelRequest& request) {
  for (const auto& specs : {request.inputs, request.outputs}) {
    for (const TensorSpec& spec : specs) {
      if (spec.layout == Layout::kPlain &&
          spec.shape.num_elements() <= std::numeric_limits<int>::max() / 2) {
        continue;
      }
      return absl::UnimplementedError(
          absl::StrCat("no GPU kernel for this layout or size: ", DescribeRequest(request)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateLoop(
    const std::vector<absl::Span<const LoopOp>>& families, const KernelRequest& request) {
  const LoopOp* loop = FindLoop(families, request.op);
  if (loop == nullptr) {
    return absl::NotFoundError(absl::StrCat("no GPU kernel for ", DescribeRequest(request)));
  }
  RETURN_IF_ERROR(CheckSizes(request));
  if (!TypesFit(loop->types, request.inputs, request.outputs)) {
    return absl::UnimplementedError(
        absl::StrCat("no GPU kernel of these types: ", DescribeRequest(request)));
  }
  return loop->create(request);
}

Walk BroadcastWalk(const Shape& from, const Shape& to) {
  Walk walk;
  const int offset = to.rank() - from.rank();
  for (int k = 0; k < to.rank(); ++k) {
    int step = 0;
    if (k >= offset && from.dim(k - offset) != 1) {
      step = 1;
      for (int inner = k - offset + 1; inner < from.rank(); ++inner) {
        step *= static_cast<int>(from.dim(inner));
      }
    }
    AddInner(&walk, static_cast<int>(to.dim(k)), step);
  }
  return walk;
}

ReductionWalks WalksOfReduction(const Shape& from, const Shape& kept) {
  ReductionWalks walks;
  int step = static_cast<int>(from.num_elements());
  for (int k = 0; k < from.rank(); ++k) {
    const int dim = static_cast<int>(from.dim(k));
    step = dim == 0 ? 0 : step / dim;
    const bool is_reduced = kept.dim(k) == 1;
    AddInner(is_reduced ? &walks.reduced : &walks.kept, dim, step);
    (is_reduced ? walks.num_reduced : walks.num_kept) *= dim;
  }
  return walks;
}

int PartsOfReduction(int rows, int length) {
  constexpr int kTermsPerPart = 4096;
  constexpr int kManyBlocks = 512;
  if (rows >= kManyBlocks || length < 2 * kTermsPerPart) return 1;
  return std::min(kManyBlocks, (length + kTermsPerPart - 1) / kTermsPerPart);
}

int ThreadsOfReduction(int length) {
  int threads = 32;
  while (threads < 256 && threads < length) threads *= 2;
  return threads;
}

Activation ActivationOf(const Attributes& attributes) {
  const std::string name = attributes.GetString("activation", "none");
  if (name == "relu") return Activation::kRelu;
  if (name == "relu6") return Activation::kRelu6;
  if (name == "sigmoid") return Activation::kSigmoid;
  if (name == "tanh") return Activation::kTanh;
  return Activation::kNone;
}

}  // namespace shoal::cuda
