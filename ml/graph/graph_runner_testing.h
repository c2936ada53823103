// Compiles and runs graphs on tensors, for tests.
#ifndef SHOAL_ML_GRAPH_GRAPH_RUNNER_TESTING_H_
#define SHOAL_ML_GRAPH_GRAPH_RUNNER_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/compiler.h"
#include "ml/tensor/tensor.h"

namespace shoal {

// Returns the initial values of all variables, float32 or float64.
std::vector<Tensor> InitialValues(const Graph& graph, uint64_t seed);

// Returns a request with the devices "/cpu:0", ... of worker 0 and the shapes of the tensors in
// `feeds`.
CompileRequest MakeRequest(const Graph& graph, const KernelBackend& backend,
                           const std::vector<std::pair<Output, Tensor>>& feeds,
                           const std::vector<Output>& fetches, int num_devices = 1);

// Runs the executable once and returns the fetched tensors, in the order of the request.
// `variables` are indexed as Graph::variables(). With `variable_versions`, equal numbers mean
// values that have not changed since the last run.
std::vector<Tensor> RunOnce(Executable* executable,
                            const std::vector<std::pair<Output, Tensor>>& feeds,
                            const std::vector<Tensor>& variables,
                            absl::Span<const uint64_t> variable_versions = {});

// Compiles the graph for one CPU device and runs it once. Errors are those of Compile.
absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const KernelBackend& backend,
                                             const std::vector<std::pair<Output, Tensor>>& feeds,
                                             const std::vector<Tensor>& variables,
                                             const std::vector<Output>& fetches);

// Returns ||a - b|| / ||b|| for two float32 tensors.
double RelativeDistance(const Tensor& a, const Tensor& b);

// Returns a tensor of random numbers, uniform in [low, high); float32 or float64.
Tensor RandomTensor(DataType dtype, const Shape& shape, uint64_t seed, double low = -1,
                    double high = 1);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRAPH_RUNNER_TESTING_H_
