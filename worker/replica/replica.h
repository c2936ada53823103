#ifndef SHOAL_WORKER_REPLICA_REPLICA_H_
#define SHOAL_WORKER_REPLICA_REPLICA_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/data/prefetcher.h"
#include "ml/tensor/buffer.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/variable_store.h"
#include "worker/replica/asked_rows.h"
#include "worker/replica/batch_keys.h"
#include "worker/replica/replica_program.h"
#include "worker/replica/row_sets.h"

namespace shoal {

// A program with its memory: two sets of parameters and two of contributions, addressed by variable
// for computing and by slice for exchanges. Tables are an exception: only the rows of a batch are
// here (RowSets). A set of contributions belongs to the exchanges that push it until they are done.
// A set of parameters belongs to the exchange that pulls into it or to the computation that uses
// it. Nothing is allocated after construction. Not thread-safe, except where a comment says
// otherwise.
class Replica {
 public:
  static constexpr uint32_t kSets = 2;

  // All pointers are borrowed. `groups` are the store's. With clip_by_global_norm > 0 the gradients
  // of a batch together are scaled down to that norm, so no group is ready before all are. That is
  // for ASYNC only; in SYNC the ps clip the mean of a step.
  Replica(ReplicaProgram* program, const SliceTable* table,
          const std::vector<ExchangeGroup>* groups, double clip_by_global_norm = 0);

  // Returns where a pull of the group writes its values. The arrays live as long as the replica.
  // The call marks the values as changed, so that later batches load them again; an unversioned
  // group has the same values in both sets for a whole lineage. Any thread may call it, one at a
  // time for a group, while nobody computes with the set.
  float* const* pull_data(uint32_t set, uint32_t group, uint64_t lineage);
  const void* const* push_data(uint32_t set, uint32_t group) const {
    return groups_[group].buckets ? rows_->push_data(set, group) : state_[group].push[set].data();
  }
  const ContributionKind* push_kinds(uint32_t group) const { return state_[group].kinds.data(); }
  const uint64_t* push_bytes(uint32_t set, uint32_t group) const {
    return groups_[group].buckets ? rows_->push_bytes(set, group) : state_[group].bytes.data();
  }

  // The rows of tables, which must be those of the batch before it is trained or evaluated; null if
  // the program has no tables. Groups of buckets are pulled into them instead of pull_data.
  RowSets* rows() const { return rows_.get(); }
  // Returns the rows of a program that asks for them while it computes; null for others.
  // AskedRows::Begin must be called before each batch. If its rows are gone afterwards, nothing
  // came of the batch.
  AskedRows* asked_rows() const { return asked_.get(); }
  // Returns a digest for the readers of batches: BatchKeys, or null if no field has keys.
  std::unique_ptr<BatchDigest> MakeDigest() const;

  absl::Span<const float* const> parameters(uint32_t set) const { return parameters_[set]; }

  // Computes a batch. Calls on_group(group, finite, report) for every versioned group as soon as
  // its contributions are final (and, for the group that carries the batch's report, the report
  // too), on any thread, not concurrently for one group.
  using OnGroup = absl::FunctionRef<void(uint32_t group, bool finite, const BatchReport& report)>;
  absl::Status Train(const LoadedBatch& batch, uint32_t parameter_set, uint32_t contribution_set,
                     OnGroup on_group);

  // See ReplicaProgram.
  uint32_t announced_ahead() const { return program_->announced_ahead(); }
  void Expect(uint64_t step, absl::Span<const BatchKey> next) { program_->Expect(step, next); }
  void ReportProgressTo(std::function<void()> on_progress) {
    program_->ReportProgressTo(std::move(on_progress));
  }
  bool may_end() const { return program_->may_end(); }
  bool HasEnded() { return program_->HasEnded(); }
  absl::Status CheckIdle() { return program_->CheckIdle(); }

  // Returns the summaries of the last batch that was trained into this set of contributions. Call
  // it while nothing trains.
  std::vector<BatchSummary> Summaries(uint32_t contribution_set) const {
    return program_->Summaries(contributions_[contribution_set]);
  }

  // The group whose exchanges carry the batch's report; UINT32_MAX if no group does.
  uint32_t report_group() const { return report_group_; }

  // Takes the rows of tables from RowSets::kEvaluationSet.
  absl::Status Evaluate(const LoadedBatch& batch, uint32_t parameter_set, BatchResult* result);

 private:
  // The memory and the current batch of a group. The arrays are indexed as the group's slices.
  struct Group {
    std::vector<float*> pull[kSets];
    std::vector<const void*> push[kSets];
    std::vector<ContributionKind> kinds;
    std::vector<uint64_t> bytes;
    // Every pull has its own number, higher than those before, except that the pulls of an
    // unversioned group in one lineage share one. `pulled` holds the number of the last pull into
    // each set; `number` is 0 before the first pull.
    uint64_t pulled[kSets] = {};
    uint64_t lineage = 0;
    uint64_t number = 0;
    // The number of contributing variables (and the report) that the group waits for in each batch,
    // and how many are missing in the current one.
    uint32_t needs = 0;
    std::atomic<uint32_t> missing{0};
  };
  // The part of a variable that a group pushes: its elements below `end` and not below the end of
  // the part before.
  struct Part {
    uint32_t group;
    uint64_t end;
  };
  struct Parts {
    std::vector<Part> parts;  // ordered by their ends
    uint32_t next = 0;        // the first that is missing in the current batch
  };

  void AllocateMemory();
  void AddSlice(uint32_t group, uint32_t slice_index);
  // Returns `memory`, or new memory of this replica if it is null.
  float* OrOwnMemory(float* memory, uint64_t bytes);
  absl::Span<const uint64_t> GetVersions(uint32_t parameter_set);
  bool IsFinite(uint32_t set, uint32_t group) const;
  void Settle(uint32_t group, uint32_t set, OnGroup on_group);
  void HandOver(uint32_t group, bool finite, OnGroup on_group) const;
  // Returns the factor that clips the whole batch's gradients, after scaling those of variables;
  // nullopt, having scaled nothing, if they are not finite.
  std::optional<float> ClipGradients(const LoadedBatch& batch, uint32_t set);
  // Returns whether the rows that the batch asked for are gone, so nothing may come of it.
  bool IsDropped() const { return asked_ != nullptr && asked_->are_gone(); }
  // Returns the keys of the rows of a batch that is computed. There are tables.
  const BatchKeys& GetRowKeys(const LoadedBatch& batch) const {
    return asked_ != nullptr ? asked_->keys() : GetKeys(batch);
  }
  void SettleParts(uint32_t variable, uint64_t num_elements, uint32_t set, OnGroup on_group);

  ReplicaProgram* const program_;
  const SliceTable& table_;
  const std::vector<ExchangeGroup>& groups_;
  const double clip_by_global_norm_;
  std::vector<Buffer> memory_;
  std::vector<Group> state_;  // indexed by group
  // Indexed by variable. versions_ has the highest number of a pull of the groups with the
  // variable.
  std::vector<Parts> parts_;
  std::vector<uint64_t> versions_;
  std::vector<const float*> parameters_[kSets];
  std::vector<float*> contributions_[kSets];
  std::atomic<uint64_t> last_pull_{0};
  uint32_t report_group_ = UINT32_MAX;
  BatchResult result_;
  const std::unique_ptr<RowSets> rows_;  // null: no tables
  std::unique_ptr<AskedRows> asked_;     // null: the fields of a batch have its keys
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_REPLICA_H_
