#include "ml/graph/graph_runner_testing.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "ml/tensor/initializer.h"

namespace shoal {
namespace {

void CopyFloats(const std::vector<float>& values, Tensor* tensor) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor->dtype() == DataType::kFloat64) {
      tensor->mutable_span<double>()[i] = values[i];
    } else {
      tensor->mutable_span<float>()[i] = values[i];
    }
  }
}

}  // namespace

std::vector<Tensor> InitialValues(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> tensors;
  for (const Variable& variable : graph.variables()) {
    const VariableSpec& spec = variable.spec;
    std::vector<float> values(static_cast<size_t>(spec.shape.num_elements()));
    InitializeRange(spec.initializer, seed, VariableNameHash(spec.name), 0, values.size(),
                    values.data());
    tensors.emplace_back(spec.dtype, spec.shape);
    CopyFloats(values, &tensors.back());
  }
  return tensors;
}

CompileRequest MakeRequest(const Graph& graph, const KernelBackend& backend,
                           const std::vector<std::pair<Output, Tensor>>& feeds,
                           const std::vector<Output>& fetches, int num_devices) {
  CompileRequest request;
  request.graph = &graph;
  request.backend = &backend;
  for (const auto& [placeholder, tensor] : feeds) {
    request.feeds.push_back({placeholder, tensor.shape()});
  }
  request.fetches = fetches;
  std::vector<std::string> names;
  for (int i = 0; i < num_devices; ++i) names.push_back(absl::StrCat("/cpu:", i));
  request.placer.devices = *LocalDevices("worker", 0, names);
  return request;
}

std::vector<Tensor> RunOnce(Executable* executable,
                            const std::vector<std::pair<Output, Tensor>>& feeds,
                            const std::vector<Tensor>& variables,
                            absl::Span<const uint64_t> variable_versions) {
  std::vector<const void*> inputs, values;
  std::vector<void*> outputs;
  std::vector<Tensor> results;
  for (const auto& feed : feeds) inputs.push_back(feed.second.data());
  for (const Tensor& variable : variables) values.push_back(variable.data());
  for (const TensorSpec& spec : executable->output_specs()) results.emplace_back(spec);
  for (Tensor& result : results) outputs.push_back(result.mutable_data());
  executable->Run({inputs, values, outputs, {}, variable_versions});
  return results;
}

absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const KernelBackend& backend,
                                             const std::vector<std::pair<Output, Tensor>>& feeds,
                                             const std::vector<Tensor>& variables,
                                             const std::vector<Output>& fetches) {
  ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable,
                   Compile(MakeRequest(graph, backend, feeds, fetches)));
  return RunOnce(executable.get(), feeds, variables);
}

double RelativeDistance(const Tensor& a, const Tensor& b) {
  CHECK(a.shape() == b.shape()) << a.shape().ToString() << " and " << b.shape().ToString();
  double difference = 0;
  double norm = 0;
  for (int64_t i = 0; i < a.shape().num_elements(); ++i) {
    const double y = b.span<float>()[i];
    const double d = a.span<float>()[i] - y;
    difference += d * d;
    norm += y * y;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

Tensor RandomTensor(DataType dtype, const Shape& shape, uint64_t seed, double low, double high) {
  std::vector<float> values(static_cast<size_t>(shape.num_elements()));
  FillUniform(seed, 0, absl::MakeSpan(values));
  for (float& value : values) value = static_cast<float>(low + (high - low) * value);
  Tensor tensor(dtype, shape);
  CopyFloats(values, &tensor);
  return tensor;
}

}  // namespace shoal
