#ifndef SHOAL_WORKER_REPLICA_MODEL_TABLES_H_
#define SHOAL_WORKER_REPLICA_MODEL_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/data/prefetcher.h"
#include "ml/graph/compiler.h"
#include "ml/graph/graph.h"
#include "ml/tensor/buffer.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// The tables that a model's training graph reads.
class ModelTables {
 public:
  // Declares the tables of the graph, which are variables of the program from `first_variable` on.
  // InvalidArgument names the table or the field that does not fit.
  absl::Status Declare(const Graph& graph, const std::vector<FieldSpec>& fields,
                       const v1::RunConfig& run, uint32_t first_variable);
  // Returns InvalidArgument if another graph of the model, that for evaluation, reads a table or a
  // field that the training graph does not read.
  absl::Status CheckReads(const Graph& graph, const std::vector<FieldSpec>& fields) const;

  // Returns InvalidArgument if the run file has settings of a table that the model does not read: a
  // misspelt name would leave the right table with the settings of the model.
  absl::Status CheckEntries(const v1::RunConfig& run) const;

  bool empty() const { return lookups_.empty(); }
  const std::vector<v1::VariableSpec>& specs() const { return specs_; }
  const std::vector<TableLookups>& lookups() const { return lookups_; }
  // Returns the number of the table with this name; nullopt if there is none.
  std::optional<size_t> Find(const std::string& name) const;
  int64_t dim(size_t table) const { return specs_[table].shape(0); }
  // Returns the room that each table needs if every field has one key in each of these examples.
  std::vector<int64_t> FirstCapacities(int64_t num_examples) const;

 private:
  std::vector<v1::VariableSpec> specs_;
  std::vector<TableLookups> lookups_;
};

// The feeds of a compiled graph that reads tables: the rows of each table, and for each field and
// clone the places of its keys among the rows.
class TableFeeds {
 public:
  // Clone c computes the next clone_examples[c] examples of a batch. The capacities are numbers of
  // keys in a clone, indexed by field, and numbers of rows, indexed by table.
  TableFeeds(const ModelTables& tables, const Graph& graph, const std::vector<FieldSpec>& fields,
             const std::vector<int64_t>& clone_examples,
             const std::vector<int64_t>& field_capacities, std::vector<int64_t> row_capacities);

  const std::vector<CompileRequest::Feed>& feeds() const { return feeds_; }
  int64_t row_capacity(size_t table) const { return row_capacities_[table]; }

  // Returns whether the rows of a batch fit the capacities, and the memory that holds them is at
  // least as large.
  bool Fits(absl::Span<const TableRows> rows) const;

  // Appends the memory of each feed. The keys of the batch's fields must fit too (BatchFeeds).
  void Bind(const LoadedBatch& batch, absl::Span<const TableRows> rows,
            std::vector<const void*>* pointers);

 private:
  struct Source {
    size_t table = 0;
    bool is_rows = false;  // the rows of the table; the rest is not used
    KeyField field;
    size_t place = 0;  // the index of the field in TableLookups::fields
    size_t first_example = 0;
    size_t num_examples = 0;
    Buffer memory;
  };

  std::vector<int64_t> row_capacities_;
  std::vector<CompileRequest::Feed> feeds_;
  std::vector<Source> sources_;  // indexed by feed
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_MODEL_TABLES_H_
