// (testonly) A worker that pushes gradients for the rows of one table, and pulls rows.
#ifndef SHOAL_PS_TABLE_TEST_WORKER_H_
#define SHOAL_PS_TABLE_TEST_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "proto/v1/parameter_service.pb.h"
#include "ps/ps_cluster_testing.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// The table "item" of a test, the run's only variable. Its buckets belong to the ps in turn.
struct TestTable {
  TestTable(int64_t dim, uint32_t buckets);

  // For PsTestCluster::Load: the tasks load this table alone.
  void ReplaceVariables(v1::LoadSlicesRequest* request) const;

  const int64_t dim;  // Floats of a row.
  const v1::VariableSpec spec;
  const SliceTable slices;
  std::vector<uint32_t> owners;  // Indexed by bucket.
};

// Worker `index` of a cluster that has loaded the table. Not thread-safe.
class TableTestWorker {
 public:
  // Keys in rising order, each with the gradient of all elements of its row.
  using Gradients = std::vector<std::pair<uint64_t, float>>;
  using WrapChannel =
      std::function<std::unique_ptr<BulkChannel>(std::unique_ptr<BulkChannel> channel)>;

  // The pointers are borrowed. Every connection to a ps goes through `wrap`, if there is one.
  TableTestWorker(PsTestCluster* cluster, const TestTable* table, uint32_t index,
                  WrapChannel wrap = nullptr);

  // Pushes `gradients` as a position's contribution to a step; null: pushes nothing.
  struct Push {
    const Gradients* gradients = nullptr;
    uint64_t step = 0;
    uint32_t position = 0;
  };
  // Reads the rows of `keys`, in rising order, at the version (SYNC) or the newest ones; null:
  // reads nothing.
  struct Pull {
    const std::vector<uint64_t>* keys = nullptr;
    uint64_t version = 0;
  };
  // Does both with one exchange for each group of buckets. Returns the first error.
  absl::Status Run(const Push& push, const Pull& pull);

  // The keys that the last Run read, in no order, with the first element of each row.
  const std::vector<std::pair<uint64_t, float>>& rows() const { return rows_; }
  // Returns the number of pushed buckets that had this outcome so far.
  int num_outcomes(PushOutcome outcome) { return outcomes_[outcome]; }

 private:
  // The keys of one bucket, with its pushed payload and the values that it pulls.
  struct Bucket {
    std::vector<uint64_t> pushed_keys;
    std::vector<float> gradients;
    std::string payload;
    std::vector<uint64_t> pulled_keys;
    std::vector<float> values;
  };
  absl::Status RunGroup(uint32_t group, const Push& push, const Pull& pull,
                        std::vector<Bucket>* buckets);

  const TestTable& table_;
  RemoteVariableStore store_;
  std::vector<std::pair<uint64_t, float>> rows_;
  std::map<PushOutcome, int> outcomes_;
};

}  // namespace shoal

#endif  // SHOAL_PS_TABLE_TEST_WORKER_H_
