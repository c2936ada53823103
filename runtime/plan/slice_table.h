#ifndef SHOAL_RUNTIME_PLAN_SLICE_TABLE_H_
#define SHOAL_RUNTIME_PLAN_SLICE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

// A piece of one variable: elements [first_element, first_element + num_elements) in row-major
// order. A slice may also be a bucket of a table. How many rows a bucket will have is not known, so
// it counts as kRowsOfBucket rows wherever sizes are compared.
struct Slice {
  uint32_t variable = 0;
  uint64_t first_element = 0;
  uint64_t num_elements = 0;
  bool is_bucket = false;

  static constexpr uint64_t kRowsOfBucket = 1024;

  uint64_t num_bytes() const { return num_elements * sizeof(float); }
};

// The division of the variables into slices, which are the units of identity, version,
// deduplication, placement, ownership and checkpoints. It depends only on the shapes and
// slice_bytes, never on the number of ps. Slices are numbered through all variables in declared
// order. A slice has as many whole rows (of the first dimension) as fit into slice_bytes; a longer
// row is divided into pieces of slice_bytes. A table has a slice for each bucket. Immutable.
class SliceTable {
 public:
  // InvalidArgument names the variable and the defect: a bad or repeated name, a dimension below 1,
  // a type other than float32, more than 2^40 elements, an unspecified update kind, a decay outside
  // [0, 1), a table of bad shape or number of buckets, or slice_bytes that is not a positive
  // multiple of 64.
  static absl::StatusOr<SliceTable> Create(absl::Span<const v1::VariableSpec> variables,
                                           uint64_t slice_bytes);

  uint32_t size() const { return static_cast<uint32_t>(slices_.size()); }
  const Slice& operator[](uint32_t slice) const { return slices_[slice]; }
  const std::vector<Slice>& slices() const { return slices_; }
  uint64_t slice_bytes() const { return slice_bytes_; }

  uint32_t num_variables() const { return static_cast<uint32_t>(variables_.size()); }
  uint64_t elements_of(uint32_t variable) const { return variables_[variable].num_elements; }
  // The number of elements in one row of the first dimension; 1 for vectors and scalars.
  uint64_t row_elements_of(uint32_t variable) const { return variables_[variable].row_elements; }
  // Returns whether workers contribute to the variable. If not, its slices have no versions.
  bool is_versioned(uint32_t variable) const { return variables_[variable].versioned; }
  bool slice_is_versioned(uint32_t slice) const { return is_versioned(slices_[slice].variable); }
  // The variable's slices are [first_slice_of(v), first_slice_of(v + 1)).
  uint32_t first_slice_of(uint32_t variable) const {
    return variable == num_variables() ? size() : variables_[variable].first_slice;
  }

  // Functions for tables. The number of floats in a row is row_elements_of().
  bool is_table(uint32_t variable) const { return variables_[variable].num_buckets > 0; }
  bool has_tables() const { return has_tables_; }
  uint32_t num_buckets_of(uint32_t table) const { return variables_[table].num_buckets; }
  // Returns the slice with the row of a key. It depends only on the key and the number of buckets.
  uint32_t BucketOf(uint32_t table, uint64_t key) const;

  // The slice whose pushes carry the batch reports: the first one with versions; size() if there is
  // none.
  uint32_t report_slice() const { return report_slice_; }

 private:
  struct Variable {
    uint64_t num_elements = 0;
    uint64_t row_elements = 0;
    bool versioned = true;
    uint32_t num_buckets = 0;  // 0: not a table
    uint32_t first_slice = 0;
  };

  SliceTable() = default;
  void CutVariable(uint32_t variable);

  uint64_t slice_bytes_ = 0;
  std::vector<Variable> variables_;
  std::vector<Slice> slices_;
  uint32_t report_slice_ = 0;
  bool has_tables_ = false;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PLAN_SLICE_TABLE_H_
