#ifndef SHOAL_WORKER_REPLICA_ASKED_ROWS_H_
#define SHOAL_WORKER_REPLICA_ASKED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"

#include "ml/data/prefetcher.h"
#include "ml/tensor/initializer.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/slice_table.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/replica_program.h"
#include "worker/replica/row_sets.h"

namespace shoal {

// The rows of a batch whose keys only its program knows (ReplicaProgram::asks_for_rows). The
// program asks for rows while it computes the batch, as often as it likes. When it has computed,
// the gradients of all that it asked for are summed by key, in the order of its calls. Not
// thread-safe.
class AskedRows {
 public:
  // Pulls the rows of these keys into the set of the batch. Returns false if that version of the
  // rows cannot be read any more.
  using Pull = std::function<bool(const BatchKeys& keys)>;

  struct Request {
    size_t lookup = 0;                // an index of ReplicaProgram::lookups()
    absl::Span<const uint64_t> keys;  // each once
    float* values = nullptr;          // receives the rows of the keys, in their order
    // Has the gradients of these rows once the batch is computed; null: there are none.
    const float* gradients = nullptr;
  };

  // All pointers are borrowed.
  AskedRows(const ReplicaProgram* program, const SliceTable* slices, RowSets* rows);

  // Names the keys that a later training batch will probably ask for, one list for each lookup with
  // each key once. The newest call counts.
  void NameAhead(const BatchKey& batch, absl::Span<const absl::Span<const uint64_t>> keys);
  // Returns the keys that are named for this batch, null if none are. Valid until the next
  // NameAhead. A trainer that prepares a set of RowSets for them, and pulls it at the batch's
  // version, saves the batch its calls of Pull.
  const BatchKeys* KeysAhead(const BatchKey& batch) const;

  // Called before the batch is computed. `row_set` is a set of RowSets, into which `pull` pulls. If
  // it was prepared for this batch, it has the rows of KeysAhead.
  void Begin(const LoadedBatch& batch, uint32_t row_set, Pull pull);

  // Called by the program: waits for the rows of at most one request for each lookup, unless they
  // are there. If they cannot be read any more, the values are those of the tables' initializers;
  // the program computes the batch with them, and the caller drops the result (are_gone()).
  void Get(absl::Span<const Request> requests);

  // Returns whether rows of the batch could not be read, so that its result has to be dropped.
  bool are_gone() const { return are_gone_; }

  // Called when the batch is computed: sums the gradients.
  void Collect();
  // The keys of all that the batch asked for, and the gradients of their rows, in the order of
  // TableKeys::keys. Valid after Collect, until the next batch.
  const BatchKeys& keys() const { return all_keys_; }
  const float* gradients(size_t lookup) const { return gradients_[lookup].data(); }

 private:
  struct Asked {
    size_t lookup = 0;
    std::vector<uint64_t> keys;
    const float* gradients = nullptr;
  };

  // Sets the values of a request to those that rows may begin with.
  void FillInitialValues(const Request& request) const;
  // Returns all keys that were asked for with this lookup, rising.
  std::vector<uint64_t> KeysAskedFor(size_t lookup) const;
  void AddGradients(const Asked& asked, const std::vector<uint64_t>& rising);

  RowSets& rows_;
  std::vector<size_t> dim_;                    // indexed by lookup
  std::vector<InitializerSpec> initializers_;  // indexed by lookup
  uint32_t epoch_ = 0;
  int64_t index_ = 0;
  uint32_t row_set_ = 0;
  Pull pull_;
  bool are_gone_ = false;
  bool has_ahead_ = false;                    // the set has the rows of KeysAhead
  std::vector<Asked> asked_;                  // ordered as the calls
  std::vector<std::vector<int32_t>> places_;  // the places of keys_ in the set
  BatchKeys ahead_;
  BatchKeys keys_;  // those of one call
  BatchKeys all_keys_;
  std::vector<std::vector<float>> gradients_;  // indexed by lookup
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_ASKED_ROWS_H_
