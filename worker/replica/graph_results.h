#ifndef SHOAL_WORKER_REPLICA_GRAPH_RESULTS_H_
#define SHOAL_WORKER_REPLICA_GRAPH_RESULTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "ml/deploy/model_deploy.h"
#include "ml/graph/graph.h"
#include "worker/replica/graph_metrics.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// The results of a batch (losses, correct predictions, metrics) among the fetches of one deployed
// graph: their positions, the memory that the graph writes them to, and their conversion to a
// BatchResult. The training and the evaluation graph have one each, because a model may, for
// example, regularize in training only.
class GraphResults {
 public:
  // Memory for the scores and labels of the examples, indexed by result; empty for other results.
  using Scores = std::vector<std::vector<float>>;

  // Appends the model's results to `fetches`, which is empty. Called once, before the others.
  void Declare(const DeployedModel& model, const std::vector<ReplicaMetric>& metrics,
               std::vector<Output>* fetches);
  // Returns the number of results; they are the first fetches.
  int count() const { return count_; }

  // Replaces the scores and labels of clones without examples: such a clone has no inputs, so the
  // first fetch takes their place.
  void ReplaceEmptyClones(const std::vector<int64_t>& clone_examples,
                          std::vector<Output>* fetches) const;
  // Points the first outputs to memory: to `scalars`, which has one number for each result, and to
  // `scores`, which gets room for the examples of each clone.
  void Bind(const std::vector<int64_t>& clone_examples, std::vector<float>* scalars, Scores* scores,
            std::vector<void*>* outputs) const;
  // Reads the result of a batch from outputs that Bind has set.
  void Store(const std::vector<int64_t>& clone_examples, const std::vector<void*>& outputs,
             int64_t num_examples, BatchResult* result) const;

 private:
  struct Metric {
    int sum = -1, weight = -1;  // no weight: the number of examples
    std::vector<ScoredExamples> scored;
  };

  // Indices of fetches; -1 if the graph has no such result.
  int data_loss_ = -1, regularization_ = -1, correct_ = -1;
  std::vector<Metric> metrics_;
  int count_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_GRAPH_RESULTS_H_
