#ifndef SHOAL_WORKER_REPLICA_REPLICA_PROGRAM_H_
#define SHOAL_WORKER_REPLICA_REPLICA_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/data/prefetcher.h"
#include "proto/v1/metric.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/variables/metric_sums.h"
#include "worker/replica/batch_keys.h"

namespace shoal {

class AskedRows;

// The result of a batch, at the values that it was computed from.
struct BatchResult {
  double loss_sum = 0;        // over the examples, data loss
  double regularization = 0;  // regularization loss
  uint64_t correct = 0;       // 0 if the model does not count correct predictions
  uint64_t examples = 0;
  MetricSums metrics;  // ordered as the program declares them
};

// A value or an array of values of a batch, to be written for TensorBoard. The tags are
// TensorBoard's names; empty: not wanted.
struct BatchSummary {
  std::string scalar;     // the value itself, if it is one number
  std::string histogram;  // the values' distribution
  std::string norm;       // the L2 norm of the values; only with a histogram
  absl::Span<const float> values;
};

// The rows of one table that a batch reads. They are in the order of the keys.
struct TableRows {
  const TableKeys* keys = nullptr;
  const float* values = nullptr;  // memory for `capacity` rows, of which the first are the batch's
  int64_t capacity = 0;
};

// One replica of the model: all its clones, ready to compute batches of any size up to the full
// one. A pure function: the same values and batch give the same bytes. One call at a time.
class ReplicaProgram {
 public:
  virtual ~ReplicaProgram() = default;

  virtual const std::vector<v1::VariableSpec>& variables() const = 0;
  // Returns whether a batch contributes to the variable (the loss depends on it, or it is a
  // statistic).
  virtual bool contributes(uint32_t variable) const = 0;

  // Returns the tables among the variables, in their order.
  virtual const std::vector<TableLookups>& lookups() const {
    static const std::vector<TableLookups> kNone;
    return kNone;
  }
  // Returns the number of rows of a table that a batch probably reads; the memory for rows has this
  // size at first.
  virtual int64_t FirstRowCapacity(size_t /*lookup*/) const { return 1; }
  // Called before Train and Evaluate if there are tables, with one entry for each of lookups(): the
  // rows that the batch reads.
  virtual void UseRows(absl::Span<const TableRows> /*rows*/) {}
  // Returns whether the program learns the keys of a batch only while it computes it. Then
  // lookups() have no fields, and UseRows is never called. Instead, UseAskedRows is called before
  // the first batch with the object that the program asks for rows (worker/replica/asked_rows.h);
  // it outlives the last batch.
  virtual bool asks_for_rows() const { return false; }
  virtual void UseAskedRows(AskedRows* /*asked*/) {}
  // Returns the gradients of these rows after Train, one after another; null if the loss does not
  // depend on the table.
  virtual const float* RowGradients(size_t /*lookup*/) const { return nullptr; }

  // Returns the metrics of BatchResult::metrics, in their order.
  virtual std::vector<v1::MetricSpec> metrics() const { return {}; }

  // Return the memory in which the program wants the parameters or contributions of a variable in a
  // set; null: the replica provides it. Not called for tables.
  virtual float* ParameterMemory(uint32_t /*set*/, uint32_t /*variable*/) { return nullptr; }
  virtual float* ContributionMemory(uint32_t /*set*/, uint32_t /*variable*/) { return nullptr; }

  // Returns the number of batches that the program wants to know ahead of their computation.
  virtual uint32_t announced_ahead() const { return 0; }
  // Called before every Train: `step` is the number of updates that the parameters have had, `next`
  // are the training batches that this worker probably computes next.
  virtual void Expect(uint64_t /*step*/, absl::Span<const BatchKey> /*next*/) {}

  // Sets the function to call, on the thread of Train or Evaluate, when a part of the batch has
  // been computed. It may be null, and a program need not call it.
  virtual void ReportProgressTo(std::function<void()> /*on_progress*/) {}

  // Compiles the program for batches of this many examples; otherwise the first such batch does it.
  // InvalidArgument or Unimplemented name the node that does not fit.
  virtual absl::Status Prepare(int64_t num_examples) = 0;

  struct TrainArguments {
    const LoadedBatch* batch = nullptr;
    absl::Span<const float* const> parameters;  // indexed by variable
    absl::Span<float* const> contributions;  // one per variable; gradients are means over the batch
    // One number per variable; the same number as before means the same values. 0, or an empty
    // span, means unknown. Evaluate has the same argument.
    absl::Span<const uint64_t> versions = {};
  };
  // Computes a batch. on_final(v, n) is called when the first n elements of contributions[v] are
  // final. The calls for one variable come from one thread (any) with growing n, and the last n
  // covers all elements. on_result is called once, when `*result` is complete, before Train
  // returns.
  using OnFinal = absl::FunctionRef<void(uint32_t variable, int64_t num_elements)>;
  virtual absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                             absl::FunctionRef<void()> on_result) = 0;

  // Returns the summaries of the last trained batch, which had these contributions. They are valid
  // until the next batch.
  virtual std::vector<BatchSummary> Summaries(absl::Span<float* const> /*contributions*/) const {
    return {};
  }

  // Computes forward only, as for prediction. The result has sums over the batch's examples.
  virtual absl::Status Evaluate(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                                absl::Span<const uint64_t> versions, BatchResult* result) = 0;

  // Returns whether the program can end by itself, since it is another process.
  virtual bool may_end() const { return false; }
  // Returns whether it has ended. It does not wait. Called by the thread that trains.
  virtual bool HasEnded() { return false; }
  // Returns why a program that has ended between batches cannot compute another one.
  virtual absl::Status CheckIdle() { return absl::OkStatus(); }

  // Returns a text that names everything that the bytes of results depend on: ISA, device kinds,
  // libraries, threads per clone. Users see it when workers differ in it.
  virtual std::string compute_fingerprint() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_REPLICA_PROGRAM_H_
