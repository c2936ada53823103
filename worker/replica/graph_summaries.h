#ifndef SHOAL_WORKER_REPLICA_GRAPH_SUMMARIES_H_
#define SHOAL_WORKER_REPLICA_GRAPH_SUMMARIES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/deploy/model_deploy.h"
#include "ml/graph/executable.h"
#include "ml/graph/graph.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// The summaries of a training graph (summary.model_every), and where the values of each are: among
// the results, in the contribution to a variable, or fetched only for the summary.
class GraphSummaries {
 public:
  // Memory for the values that are fetched only for a summary, indexed by summary.
  using Values = std::vector<std::vector<float>>;

  // Takes the summaries of the model. `fetches` begins with `num_results` results, followed by the
  // contributions to the variables `contributing`; the function appends what is not there yet.
  // InvalidArgument names a value that is not float32.
  absl::Status Declare(const DeployedModel& model, int num_results,
                       const std::vector<uint32_t>& contributing, std::vector<Output>* fetches);
  // Points the outputs that are fetched only for a summary to memory in `values`.
  void Bind(const Executable& executable, Values* values, std::vector<void*>* outputs) const;
  // Returns the summaries of a batch with these results, contributions (indexed by variable of
  // `graph`) and values. They point to the arguments.
  std::vector<BatchSummary> Collect(const Graph& graph, const std::vector<float>& results,
                                    absl::Span<float* const> contributions,
                                    const Values& values) const;

 private:
  struct Summary {
    BatchSummary tags;  // its values are empty
    Output value;
    int result = -1;    // index of the result
    int variable = -1;  // index of the contribution
    int fetch = -1;     // index of the fetch, if fetched only for the summary
  };

  std::vector<Summary> summaries_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_GRAPH_SUMMARIES_H_
