#include "ml/kernels/cpu/kernel_runner_testing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

namespace shoal::cpu {

const void* Value::data() const {
  if (spec.dtype == DataType::kInt32) return ints.data();
  if (spec.dtype == DataType::kUint8) return bytes.data();
  return floats.data();
}

void* Value::data() { return const_cast<void*>(static_cast<const Value*>(this)->data()); }

Value Floats(const Shape& shape, std::vector<float> values) {
  return {{DataType::kFloat32, shape}, std::move(values), {}, {}};
}

Value Ints(const Shape& shape, std::vector<int32_t> values) {
  return {{DataType::kInt32, shape}, {}, std::move(values), {}};
}

Value Bytes(const Shape& shape, std::vector<uint8_t> values) {
  return {{DataType::kUint8, shape}, {}, {}, std::move(values)};
}

Value RandomFloats(const Shape& shape, uint32_t seed, float scale) {
  Value value = Floats(shape, {});
  uint32_t state = seed * 2654435761u + 1u;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    value.floats.push_back((static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * scale);
  }
  return value;
}

Value Unwritten(const TensorSpec& spec) {
  Value value;
  value.spec = spec;
  const size_t n = static_cast<size_t>(spec.shape.num_elements());
  if (spec.dtype == DataType::kInt32) {
    value.ints.assign(n, -77);
  } else if (spec.dtype == DataType::kUint8) {
    value.bytes.assign(n, 77);
  } else {
    value.floats.assign(n, -7.7e33f);
  }
  return value;
}

namespace {

// Moves every element between [n][c][pixels] and [n][c/16][pixels][16].
template <typename T>
std::vector<T> Reorder(const Shape& shape, const std::vector<T>& from, bool to_blocked) {
  const int64_t pixels = shape.dim(2) * shape.dim(3);
  std::vector<T> to(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t plane = static_cast<int64_t>(i) / pixels,
                  pixel = static_cast<int64_t>(i) % pixels;
    const size_t blocked = static_cast<size_t>((plane / 16 * pixels + pixel) * 16 + plane % 16);
    if (to_blocked) {
      to[blocked] = from[i];
    } else {
      to[i] = from[blocked];
    }
  }
  return to;
}

Value WithLayout(const Value& images, Layout layout) {
  Value result = images;
  result.spec.layout = layout;
  const bool to_blocked = layout == Layout::kBlocked16;
  if (!images.floats.empty()) result.floats = Reorder(images.spec.shape, images.floats, to_blocked);
  if (!images.bytes.empty()) result.bytes = Reorder(images.spec.shape, images.bytes, to_blocked);
  return result;
}

}  // namespace

Value ToBlocked(const Value& images) { return WithLayout(images, Layout::kBlocked16); }
Value ToPlain(const Value& images) { return WithLayout(images, Layout::kPlain); }

absl::StatusOr<std::vector<Value>> RunKernel(const std::string& op, const Attributes& attributes,
                                             const std::vector<Value>& inputs,
                                             const std::vector<TensorSpec>& outputs,
                                             const RunOptions& options) {
  std::vector<TensorSpec> input_specs;
  std::vector<const void*> input_pointers;
  for (const Value& input : inputs) {
    input_specs.push_back(input.spec);
    input_pointers.push_back(input.data());
  }
  std::vector<Value> results;
  for (const TensorSpec& spec : outputs) results.push_back(Unwritten(spec));
  std::vector<void*> output_pointers;
  for (size_t i = 0; i < results.size(); ++i) {
    const bool needed = i >= options.output_needed.size() || options.output_needed[i];
    output_pointers.push_back(needed ? results[i].data() : nullptr);
  }
  KernelRequest request;
  request.op = op;
  request.attributes = &attributes;
  request.inputs = input_specs;
  request.outputs = outputs;
  request.output_needed = options.output_needed;
  request.threads = options.threads;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = CreateCpuKernel(request, options.isa);
  if (!kernel.ok()) return kernel.status();
  const size_t bytes = ((*kernel)->workspace_bytes() + 127) / 64 * 64;
  std::unique_ptr<void, void (*)(void*)> workspace(std::aligned_alloc(64, bytes), std::free);
  KernelContext context;
  context.inputs = input_pointers.data();
  context.outputs = output_pointers.data();
  context.workspace = workspace.get();
  (*kernel)->Run(context);
  return results;
}

std::vector<CpuIsa> AllIsas() {
  std::vector<CpuIsa> isas = {CpuIsa::kGeneric};
  if (DetectCpuIsa() >= CpuIsa::kAvx2) isas.push_back(CpuIsa::kAvx2);
  if (DetectCpuIsa() >= CpuIsa::kAvx512) isas.push_back(CpuIsa::kAvx512);
  return isas;
}

double LargestError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      return std::numeric_limits<double>::infinity();
    }
    const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(largest, error / (1.0 + std::abs(static_cast<double>(b[i]))));
  }
  return largest;
}

double ErrorToScale(const std::vector<float>& a, const std::vector<float>& b) {
  double scale = 0.0, largest = 0.0;
  for (float v : b) scale = std::max(scale, std::abs(static_cast<double>(v)));
  for (size_t i = 0; i < b.size() && a.size() == b.size(); ++i) {
    const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(error <= largest)) largest = error;  // NaN stays
  }
  return a.size() == b.size() ? largest / scale : std::numeric_limits<double>::infinity();
}

}  // namespace shoal::cpu
