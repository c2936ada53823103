#ifndef SHOAL_RUNTIME_TABLES_TABLE_UPDATER_H_
#define SHOAL_RUNTIME_TABLES_TABLE_UPDATER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/optim/update_rule.h"
#include "ml/tensor/initializer.h"

namespace shoal {

// The settings of a table of embedding rows.
struct TableOptions {
  std::string name;
  uint32_t dim = 0;  // the floats of a row's value, 1 to 4096
  // kSgd, kAdagrad, kAdam or kFtrl. A row that a step does not touch keeps its value and its slots
  // (PyTorch's SparseAdam, TensorFlow's LazyAdam); the t of Adam's formula counts all steps, also
  // those that did not touch the row.
  OptimizerOptions optimizer;
  // Adagrad with one accumulator for a row, to which it adds the mean of the squared gradient
  // (FBGEMM's EXACT_ROWWISE_ADAGRAD). `optimizer` must be kAdagrad.
  bool rowwise = false;
  // Bounds every element of the scaled gradient; 0: off.
  double clip_by_value = 0;
  double l2 = 0;  // adds l2 * value to the gradient of a touched row, after clipping
  InitializerSpec initializer;
  // A row is stored once this many updates have touched its key; 0 and 1: from the first on. It is
  // at most 2^30.
  uint32_t min_count = 0;
  // A row that more than `idle_updates` updates of its bucket did not touch is dropped: its value
  // is the initial one again. The count of a key without a row begins anew. 0: never.
  uint32_t idle_updates = 0;
};

// Updates rows of one table, many at a time. Immutable and thread-safe, but each thread needs its
// own Scratch.
//
// A row is its value, then its slots, in one array of row_floats() floats.
class TableUpdater {
 public:
  // The most rows of one Apply: few, so that values and slots of rows of usual widths stay in the
  // CPU's first-level cache.
  static constexpr size_t kBlockRows = 64;

  class Scratch {
   public:
    explicit Scratch(const TableUpdater& updater);

   private:
    friend class TableUpdater;
    std::vector<float> gradient_, value_, slots_;
  };

  // `seed` is the run's. InvalidArgument names the field.
  static absl::StatusOr<std::unique_ptr<TableUpdater>> Create(const TableOptions& options,
                                                              uint64_t seed);

  const TableOptions& options() const { return options_; }
  size_t dim() const { return options_.dim; }
  size_t row_floats() const { return row_floats_; }
  // The names of the slots in a row, in their order.
  std::vector<std::string> slot_names() const;

  // Sets `value` (dim floats) to that of a row that was never trained. It depends only on the seed,
  // the table's name and the key.
  void FillInitialValue(uint64_t key, float* value) const;
  // Sets a whole row to one that was never trained.
  void FillInitialRow(uint64_t key, float* row) const;

  struct Update {
    int64_t step = 1;  // t in the formulas, from 1
    float learning_rate = 0;
    float scale = 1;  // multiplies the gradients
  };
  // Updates rows in place, at most kBlockRows of them. gradients: rows.size() times dim floats.
  // Returns false if a number of a new row is not finite; the rows are changed all the same.
  bool Apply(const Update& update, const float* gradients, absl::Span<float* const> rows,
             Scratch* scratch) const;

 private:
  TableUpdater(const TableOptions& options, uint64_t seed, std::unique_ptr<UpdateRule> rule);

  const TableOptions options_;
  const uint64_t seed_;
  const uint64_t name_hash_;
  const std::unique_ptr<UpdateRule> rule_;
  const size_t num_slots_;  // the number of slots with dim floats each; 0 if rowwise
  const size_t row_floats_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_TABLE_UPDATER_H_
