#ifndef SHOAL_WORKER_GRAPH_PROGRAM_H_
#define SHOAL_WORKER_GRAPH_PROGRAM_H_

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
#include "proto/v1/run_config.pb.h"
#include "worker/replica_program.h"

namespace shoal {

// A model deployed on the clones of a replica and compiled, once per batch size. See
// ReplicaProgram.
class GraphProgram : public ReplicaProgram {
 public:
  struct Options {
    v1::RunConfig run;  // deployment, optimizer, batch_size; resolved
    ModelFunction model;
    std::vector<FieldSpec> fields;            // of the data set
    KernelBackend backend;                    // of CPUs
    std::vector<KernelBackend> accelerators;  // backends of other device types that are there
    std::string compute_name;  // names the CPU backend's instruction set and libraries
  };

  // Builds and differentiates the graphs. Errors name what does not fit in the model or in
  // deployment.
  static absl::StatusOr<std::unique_ptr<GraphProgram>> Create(Options options);

  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t variable) const override { return contribution_of_[variable].valid(); }
  // Returns whether the model counts correct predictions.
  bool classifies() const { return train_.model.correct_count.valid(); }

  std::vector<BatchSummary> Summaries(absl::Span<float* const> contributions) const override;

  absl::Status Prepare(int64_t num_examples) override;
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override;
  absl::Status Evaluate(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                        absl::Span<const uint64_t> versions, BatchResult* result) override;
  std::string compute_fingerprint() const override;
  // Devices that the run lists and this build or machine does not have; soft placement computes
  // their clones on CPUs.
  std::vector<std::string> missing_devices() const;
  // For people, a line each: "variable NAME [SHAPE] on DEVICE, DEVICE" in the order of declaration,
  // "clone 0 on DEVICE", and with log_device_placement "gradient NODE of VARIABLE on DEVICE" for
  // each clone and "gradients of VARIABLE summed on DEVICE".
  std::vector<std::string> PlacementLines() const;

 private:
  // The fetches of a graph that are its scalars; only those that it has. They come first.
  struct ResultIndices {
    int data_loss = -1, regularization = -1, correct = -1;
    int count = 0;
  };
  // One deployed graph. That of training and that of evaluation may have other results: a model may
  // regularize in training only.
  struct Deployed {
    std::unique_ptr<Graph> graph;
    std::unique_ptr<InputQueue> queue;
    DeployedModel model;
    ResultIndices results;
  };
  // An executable for one batch size with its bindings.
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::vector<int64_t> clone_rows;            // first row of each feed's clone in the batch
    std::vector<uint32_t> feed_fields;          // by feed
    std::vector<const void*> inputs;            // by feed
    std::vector<const void*> variables;         // by graph variable
    std::vector<uint64_t> versions;             // likewise
    std::vector<void*> outputs;                 // by fetch
    std::vector<std::vector<float>> summaries;  // indexed by summary: what is fetched for it alone
  };
  // A summary of the model and where its values are.
  struct Summary {
    BatchSummary tags;  // without values
    Output value;
    int result = -1;    // index in results_
    int variable = -1;  // index of the contribution
    int fetch = -1;     // index in train_fetches_: only for the summary
  };

  explicit GraphProgram(Options options) : options_(std::move(options)) {}
  absl::Status Build(bool is_training, Deployed* deployed);
  absl::Status DeclareVariables();
  // Checks that the training graph, which declares the variables, has all that evaluation reads.
  absl::Status CheckEvaluationVariables() const;
  static void DeclareResults(Deployed* deployed, std::vector<Output>* fetches);
  // With summary.model_every; after DeclareVariables.
  absl::Status DeclareSummaries();
  void BindSummaries(Compiled* compiled) const;
  absl::StatusOr<PlacerOptions> PlacerFor() const;
  absl::StatusOr<std::unique_ptr<Compiled>> CompileFor(const Deployed& deployed,
                                                       const std::vector<Output>& fetches,
                                                       int64_t num_examples);
  void Bind(const LoadedBatch& batch, absl::Span<const float* const> parameters,
            absl::Span<const uint64_t> versions, const Deployed& deployed,
            Compiled* compiled) const;
  static void TellResults(const ResultIndices& indices, const float* values, int64_t num_examples,
                          BatchResult* result);
  std::vector<int64_t> ExamplesPerClone(int64_t num_examples, size_t num_clones) const;

  const Options options_;
  v1::OptimizerConfig optimizer_;
  Deployed train_;
  Deployed evaluate_;
  std::vector<v1::VariableSpec> variables_;
  std::vector<Output> contribution_of_;  // by variable
  std::vector<Output> train_fetches_;    // results, contributions, what else is summarised
  std::vector<uint32_t>
      contributing_;  // variables, in the order of train_fetches_ after the results
  std::vector<Output> evaluate_fetches_;
  std::vector<Summary> summaries_;
  const Compiled* last_trained_ = nullptr;
  std::map<int64_t, std::unique_ptr<Compiled>> train_compiled_;  // by number of examples
  std::map<int64_t, std::unique_ptr<Compiled>> evaluate_compiled_;
  static constexpr int kMaxResults = 3;
  float results_[kMaxResults] = {};  // values of the last training run
};

}  // namespace shoal

#endif  // SHOAL_WORKER_GRAPH_PROGRAM_H_
