#ifndef SHOAL_WORKER_REPLICA_GRAPH_PROGRAM_H_
#define SHOAL_WORKER_REPLICA_GRAPH_PROGRAM_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/deploy/model_deploy.h"
#include "ml/device/kernel.h"
#include "ml/graph/compiler.h"
#include "ml/graph/executable.h"
#include "ml/graph/graph.h"
#include "ml/nn/model.h"
#include "ml/tensor/buffer.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/batch_feeds.h"
#include "worker/replica/graph_metrics.h"
#include "worker/replica/graph_results.h"
#include "worker/replica/graph_summaries.h"
#include "worker/replica/model_tables.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// A model deployed on the clones of a replica and compiled, once per batch size. See
// ReplicaProgram.
class GraphProgram : public ReplicaProgram {
 public:
  struct Options {
    v1::RunConfig run;  // deployment, optimizer, batch_size; resolved
    ModelFunction model;
    std::vector<FieldSpec> fields;            // the fields of the data set
    KernelBackend backend;                    // the backend of CPU devices
    std::vector<KernelBackend> accelerators;  // backends of the other device types that are present
    std::string compute_name;                 // the CPU backend's instruction set and libraries
  };

  // Builds and differentiates the graphs. Errors name the node of the model or the field of
  // `deployment` that does not fit.
  static absl::StatusOr<std::unique_ptr<GraphProgram>> Create(Options options);

  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t variable) const override { return contribution_of_[variable].valid(); }
  const std::vector<TableLookups>& lookups() const override { return tables_.lookups(); }
  int64_t FirstRowCapacity(size_t lookup) const override { return first_row_capacities_[lookup]; }
  void UseRows(absl::Span<const TableRows> rows) override { rows_ = rows; }
  const float* RowGradients(size_t lookup) const override;
  // Returns whether the model counts correct predictions.
  bool classifies() const { return train_.model.correct_count.valid(); }
  std::vector<v1::MetricSpec> metrics() const override;

  std::vector<BatchSummary> Summaries(absl::Span<float* const> contributions) const override;

  absl::Status Prepare(int64_t num_examples) override;
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override;
  absl::Status Evaluate(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                        absl::Span<const uint64_t> versions, BatchResult* result) override;
  std::string compute_fingerprint() const override;
  // Returns the devices of clones that this build or machine does not have; see
  // MissingDevicesOfClones. With soft placement their clones are computed on CPUs.
  std::vector<std::string> missing_devices() const;
  // Returns the dense variables whose rows the model looks up by ids.
  std::vector<VariableSpec> DenseEmbeddings() const;
  // Returns lines for the user about the devices of the training graph; see placement_lines.h.
  std::vector<std::string> PlacementLines() const;

 private:
  // One deployed graph: that of training, or that of evaluation.
  struct Deployed {
    std::unique_ptr<Graph> graph;
    std::unique_ptr<InputQueue> queue;
    DeployedModel model;
    std::vector<ReplicaMetric> metrics;
    GraphResults results;
  };
  // An executable for one batch size with its bindings.
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<BatchFeeds> feeds;
    std::unique_ptr<TableFeeds> table_feeds;
    std::vector<const void*> inputs;     // if there are tables: the memory of all feeds
    std::vector<Buffer> row_gradients;   // in training, indexed by table
    std::vector<const void*> variables;  // indexed by graph variable
    std::vector<uint64_t> versions;      // indexed by graph variable
    std::vector<void*> outputs;          // indexed by fetch
    std::vector<int64_t> clone_examples;
    GraphResults::Scores scores;
    GraphSummaries::Values summaries;
  };

  explicit GraphProgram(Options options) : options_(std::move(options)) {}
  absl::Status Build(bool is_training, Deployed* deployed);
  absl::Status DeclareVariables();
  // Checks that the training graph, which declares the variables, declares all that evaluation
  // reads.
  absl::Status CheckEvaluationVariables() const;
  void BindRowGradients(Compiled* compiled) const;
  absl::StatusOr<PlacerOptions> PlacerFor() const;
  // Declares the tables, after the other variables, and the fetches of their gradients.
  absl::Status DeclareTables();
  // Compiles for batches of that size, and so many keys per ragged field; empty: FirstCapacities.
  // There is room for the rows of UseRows; before its first call, for FirstRowCapacity.
  absl::StatusOr<std::unique_ptr<Compiled>> CompileFor(const Deployed& deployed,
                                                       const std::vector<Output>& fetches,
                                                       int64_t num_examples,
                                                       std::vector<int64_t> capacities);
  // Returns what is compiled for batches of this size, and compiles it first if that is missing or
  // has no room for the keys of the batch.
  using CompiledBySize = std::map<int64_t, std::unique_ptr<Compiled>>;
  absl::StatusOr<Compiled*> CompiledFor(const LoadedBatch& batch, const Deployed& deployed,
                                        const std::vector<Output>& fetches, CompiledBySize* all);
  RunBindings Bind(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                   absl::Span<const uint64_t> versions, const Deployed& deployed,
                   Compiled* compiled) const;
  std::vector<int64_t> ExamplesPerClone(int64_t num_examples, size_t num_clones) const;

  const Options options_;
  v1::OptimizerConfig optimizer_;
  Deployed train_;
  Deployed evaluate_;
  std::vector<v1::VariableSpec> variables_;
  std::vector<Output> contribution_of_;  // indexed by variable
  std::vector<Output> train_fetches_;    // results, contributions, other summarised values
  // The variables whose contributions follow the results in train_fetches_, in that order.
  std::vector<uint32_t> contributing_;
  std::vector<Output> evaluate_fetches_;
  ModelTables tables_;
  std::vector<int64_t> first_row_capacities_;
  std::vector<int> row_fetches_;  // indexed by table: in train_fetches_, -1 if there is none
  absl::Span<const TableRows> rows_;
  GraphSummaries summaries_;  // empty without summary.model_every
  const Compiled* last_trained_ = nullptr;
  CompiledBySize train_compiled_;  // keyed by number of examples
  CompiledBySize evaluate_compiled_;
  std::vector<float> results_;  // values of the last training run
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_GRAPH_PROGRAM_H_
