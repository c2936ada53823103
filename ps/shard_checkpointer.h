// Makes this ps's part of every cut durable, beside the training.
#ifndef SHOAL_PS_SHARD_CHECKPOINTER_H_
#define SHOAL_PS_SHARD_CHECKPOINTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "ps/ps_metrics.h"
#include "runtime/cluster/slice_table.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/retry.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace v1 {
class Identity;
class ReportShardRequest;
}  // namespace v1

// Gathers the slices of a cut as they reach it, writes them on a thread of its own when the last
// one has, and tells the chief. A shard that cannot be written is reported too, and training goes
// on. Thread-safe; AddParts never blocks.
class ShardCheckpointer {
 public:
  struct Options {
    uint32_t ps_index = 0;
    FileSystem* file_system = nullptr;  // Must outlive the checkpointer, as must the next two.
    ChiefClient* chief = nullptr;
    const Clock* clock = nullptr;
    std::function<v1::Identity()> identity;  // The task's, now.
    PsMetrics* metrics = nullptr;            // Must outlive the checkpointer.
  };

  // What the slices of a lineage are called, and where they go.
  struct Lineage {
    uint64_t lineage = 0;
    uint64_t term = 0;
    uint32_t num_ps = 1;
    std::string root;                    // The directory of all checkpoints; empty: none are made.
    std::vector<std::string> variables;  // Names.
    std::vector<std::vector<std::string>>
        slots;  // Names, by variable; empty where this ps has no slice.
    std::vector<Slice> slices;
    std::vector<uint32_t> first_slice;  // By variable.
    uint32_t report_slice = 0;
  };

  explicit ShardCheckpointer(Options options);
  // The same as Stop.
  ~ShardCheckpointer();

  // Forgets cuts that are not written yet.
  void StartLineage(Lineage lineage);
  // Takes the parts out of the list.
  void AddParts(std::vector<SliceStoreEvents::CutPart>* parts);

  // Waits for the file that is being written. Idempotent.
  void Stop();

  // The directory, below the root, that all ps write a cut of this lineage to.
  static std::string DirectoryOf(uint64_t cut, uint64_t term, uint64_t lineage);

 private:
  struct Cut {
    uint64_t version = 0;
    std::vector<SliceStoreEvents::CutPart> parts;
  };

  void Run();
  absl::Status Write(const Lineage& lineage, const Cut& cut, v1::ReportShardRequest* report) const;
  void Report(uint64_t lineage, v1::ReportShardRequest report);
  bool IsCurrent(uint64_t lineage);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Lineage lineage_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Cut> gathering_ ABSL_GUARDED_BY(mutex_);  // By version.
  std::deque<Cut> complete_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PS_SHARD_CHECKPOINTER_H_
