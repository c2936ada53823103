#ifndef SHOAL_WORKER_REPLICA_ROW_SETS_H_
#define SHOAL_WORKER_REPLICA_ROW_SETS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/tensor/buffer.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/variable_store.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// Returns the remedy for a batch whose keys of one of the table's buckets take more bytes, with
// their rows, than a message holds. `smaller` is the setting that makes such a batch smaller.
std::string RemedyForFullBucket(uint64_t buckets, uint64_t bytes, absl::string_view smaller);

// The rows of tables that a replica computes with: a set for each set of parameters, and one for
// evaluation, each with the rows of one batch; and the payloads with the gradients of these rows
// for each set of contributions. Memory grows with the largest batch, not with the tables.
//
// A set belongs to the exchanges that pull into it, from Prepare until they are done, or to the
// computation that uses it; the payloads of a set belong to the exchanges that push them.
class RowSets {
 public:
  static constexpr uint32_t kEvaluationSet = 2;

  // All pointers are borrowed; `groups` are the store's.
  RowSets(const ReplicaProgram* program, const SliceTable* table,
          const std::vector<ExchangeGroup>* groups);

  // Returns FailedPrecondition, which names the table and the remedy, if the keys of a bucket do
  // not fit into one message with their rows or gradients. Such keys cannot be prepared or encoded.
  // `is_evaluated`: they are those of a block of the test data.
  absl::Status CheckFits(const BatchKeys& keys, bool is_evaluated = false) const;

  // Prepares the set for the batch with these keys. If `keys` is null, the set is for no batch, and
  // pulls ask only for versions. The rows are in the set once every group of buckets has been
  // pulled with pulls().
  void Prepare(uint32_t set, const BatchKeys* keys);
  // Returns whether the set was prepared for this batch.
  bool IsPreparedFor(uint32_t set, const BatchKeys& keys) const;
  bool IsPreparedFor(uint32_t set, uint32_t epoch, int64_t index) const;
  // Returns whether the set, which was prepared for a batch, has the rows of all these keys.
  // (*places)[t][i] is then the place of the row of keys.tables()[t].keys[i] among those of lookup
  // t in values().
  bool FindRows(uint32_t set, const BatchKeys& keys,
                std::vector<std::vector<int32_t>>* places) const;
  // Returns the rows that the set has for a lookup.
  const float* values(uint32_t set, size_t lookup) const {
    return static_cast<const float*>(sets_[set].values[lookup].data());
  }
  // Returns the value of Exchange::pull_rows for a group of buckets.
  const RowPull* pulls(uint32_t set, uint32_t group) const {
    return sets_[set].pulls[group].data();
  }

  // Returns the rows of the set's batch, one entry for each of the program's lookups. `keys` are
  // that batch's.
  absl::Span<const TableRows> GetRows(uint32_t set, const BatchKeys& keys);

  // Makes the payloads of a group from the program's gradients of the last batch, which had these
  // keys, times `scale`. Returns false if a gradient is not finite.
  bool Encode(uint32_t contribution_set, uint32_t group, const BatchKeys& keys, float scale);
  // Adds the squares of all gradients of the last batch to *sum; returns false if one is not
  // finite.
  bool AddSquares(const BatchKeys& keys, double* sum) const;

  // Return push_data and push_bytes for the Exchange that pushes a group of buckets.
  const void* const* push_data(uint32_t set, uint32_t group) const {
    return payloads_[set][group].data.data();
  }
  const uint64_t* push_bytes(uint32_t set, uint32_t group) const {
    return payloads_[set][group].bytes.data();
  }

 private:
  static constexpr uint32_t kContributionSets = 2;

  // A bucket: a place in the keys of one of the program's lookups.
  struct Place {
    size_t lookup = 0;
    uint32_t bucket = 0;
  };
  struct Set {
    bool is_of_batch = false;
    uint32_t epoch = 0;
    int64_t index = 0;
    std::vector<std::vector<uint64_t>> keys;    // indexed by lookup
    std::vector<std::vector<uint32_t>> begins;  // TableKeys::begins, indexed by lookup
    std::vector<Buffer> values;                 // indexed by lookup
    std::vector<int64_t> capacity;              // of `values`, in rows
    std::vector<std::vector<RowPull>> pulls;    // indexed by group and slice in the group
  };
  struct Payloads {
    std::vector<uint64_t> memory;
    std::vector<const void*> data;
    std::vector<uint64_t> bytes;
  };

  const ReplicaProgram& program_;
  std::vector<uint64_t> dim_;               // indexed by lookup
  std::vector<int64_t> capacity_;           // indexed by lookup: the rows that new memory has
  std::vector<std::vector<Place>> places_;  // indexed by group and slice in the group
  Set sets_[3];
  std::vector<Payloads> payloads_[kContributionSets];  // indexed by group
  std::vector<TableRows> rows_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_ROW_SETS_H_
