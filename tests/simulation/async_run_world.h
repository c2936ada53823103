#ifndef SHOAL_TESTS_SIMULATION_ASYNC_RUN_WORLD_H_
#define SHOAL_TESTS_SIMULATION_ASYNC_RUN_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "chief/training_session.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/cluster/batch_key.h"
#include "tests/simulation/simulated_disk.h"

namespace shoal {

// One ASYNC run with the real TrainingSession: what AsyncWorld leaves out, i.e. cuts, manifests
// that take their time, lines of metrics.jsonl, checkpoints and stops on request, evaluations and
// resumes. Its ps and workers are models: a slice is the number of times that it has each batch.
// One step after the other, whose turn it is drawn from the seed: ps and workers die and come back,
// calls and answers are lost, late and repeated, disks are slow or fail.
//
// Judged: the last checkpoint is finished, and every ps has every batch in it once; whatever
// checkpoint is durable has the lines of all that it contains, in order; nobody waits for ever.
class AsyncRunWorld {
 public:
  // Promises that can be broken, to prove that it would be noticed.
  struct Broken {
    bool dedupe = false;           // a ps takes a batch again
    bool loaded_steps = false;     // a ps answers a load with what it has now
    bool applied_on_disk = false;  // shards lack the sets of their batches
  };
  struct Counts {
    uint64_t ps_deaths = 0;
    uint64_t worker_deaths = 0;
    uint64_t chiefs = 0;
    uint64_t checkpoints = 0;
    uint64_t failed_manifests = 0;
  };

  AsyncRunWorld(uint64_t seed, const Broken& broken);

  // Empty, or the promise that was broken.
  std::string Run();
  const Counts& counts() const { return counts_; }

 private:
  // The part of one ps, in memory or on the disk.
  struct Shard {
    std::map<BatchKey, int> times;
    std::set<BatchKey> applied;  // of epochs that are not forgotten
    uint64_t updates = 0;
  };
  struct Write {
    uint64_t version = 0;
    Shard shard;
    bool is_written = false;
  };
  struct Ps {
    bool is_alive = false;
    std::string nonce;
    uint64_t incarnation = 0;
    uint64_t lineage = 0;  // 0: not loaded
    uint64_t loaded_updates = 0;
    uint32_t first_kept_epoch = 0;
    Shard shard;
    std::set<BatchKey> skipped;
    std::set<uint64_t> cuts;
    std::deque<v1::StepReport> steps;  // not reported yet
    std::deque<PsCommand> commands;
    std::deque<Write> writes;
  };
  struct Worker {
    bool is_alive = false;
    std::string nonce;
    uint64_t incarnation = 0;
    uint64_t number = 0;  // of the last call
    uint64_t view = 0;
    std::vector<uint64_t> ps_incarnations;  // as in that view
    std::vector<v1::LeaseBatchesResponse::Lease> leases;
    std::vector<v1::LeaseBatchesResponse::Evaluation> blocks;
    std::map<BatchKey, std::set<uint32_t>> delivered;  // to which ps
    std::vector<BatchKey> finished;
    std::vector<BatchKey> unanswered;  // finished batches of a call whose answer was lost
  };

  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  // A message or an answer is lost, or comes twice.
  bool Happens(uint64_t one_in) { return has_faults_ && OneIn(one_in); }
  void Fail(const std::string& what);

  // async_run_world.cc: the chief, its disk, and who lives.
  void StartChief();
  TrainingSession::Options Options() const;
  void Step();
  void Fault();
  void Disconnect(v1::Job job, uint32_t index, uint64_t incarnation);
  void Tick();
  void TakeRecords();
  void TakeLine(uint64_t step);
  void Publish();
  void CheckLines(const std::string& directory);
  void Judge();
  void JudgeShard(const std::string& name, const Shard& shard, const BatchKey& next,
                  const std::set<BatchKey>& skipped);

  // async_run_tasks.cc: what ps and workers do.
  template <typename Task>
  bool Beat(v1::Job job, uint32_t index, Task* task);
  void PsBeats(uint32_t index);
  void WorkerBeats(uint32_t index);
  v1::Identity IdentityOf(v1::Job job, uint32_t index, uint64_t incarnation) const;
  v1::RegisterTaskRequest Registration(v1::Job job, uint32_t index, const std::string& nonce) const;
  void PsActs(uint32_t index);
  void Obey(uint32_t index, const PsCommand& command);
  void Load(uint32_t index, const v1::LoadSlicesRequest& request);
  v1::GetAppliedResponse Applied(uint32_t index, uint32_t epoch) const;
  static void ForgetEpochsBefore(uint32_t epoch, Ps* ps);
  void ReportSteps(uint32_t index);
  void WriteShard(uint32_t index);
  enum class Taken { kYes, kSkipped };
  Taken Push(uint32_t index, const BatchKey& batch);
  void WorkerActs(uint32_t index);
  void Compute(uint32_t index);
  bool Deliver(const v1::LeaseBatchesResponse::Lease& lease, Worker* worker, bool* is_skipped);
  void Evaluate(uint32_t index);
  void Lease(uint32_t index);
  static void TakeLeases(const v1::LeaseBatchesResponse& response, Worker* worker);
  bool CountsSteps(uint32_t ps) const;
  bool HasSlices(uint32_t ps) const;

  std::mt19937_64 random_;
  const Broken broken_;
  v1::RunConfig run_;
  uint64_t batches_ = 1;  // of an epoch
  uint64_t evaluation_blocks_ = 0;
  std::set<BatchKey> non_finite_;
  // One in so many.
  uint64_t faults_ = 0, published_ = 1, reported_ = 1, loaded_ = 1;

  Counts counts_;
  std::string failure_;
  absl::Time now_ = absl::UnixEpoch();
  bool has_faults_ = true;
  uint64_t term_ = 0;
  uint64_t nonces_ = 0;
  std::unique_ptr<TrainingSession> session_;
  std::vector<Ps> ps_;
  std::vector<Worker> workers_;
  std::deque<ManifestToWrite> publishing_;
  std::deque<std::function<void()>> answers_;  // on their way to the chief
  // metrics.jsonl: lines 1 to num_lines_.
  uint64_t num_lines_ = 0;
  bool may_lack_lines_ = false;  // the chief has given up waiting for some, and said so
  // The disk.
  std::map<std::pair<std::string, std::string>, Shard> shards_;  // by directory and name
  std::map<std::string, uint64_t> steps_of_;                     // counted in a checkpoint's shards
  SimulatedDisk manifests_;                                      // and nothing else
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_ASYNC_RUN_WORLD_H_
