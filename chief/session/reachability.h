#ifndef SHOAL_CHIEF_SESSION_REACHABILITY_H_
#define SHOAL_CHIEF_SESSION_REACHABILITY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace shoal {

// Records from the workers' heartbeats which worker reaches which ps on the bulk path, and decides
// what to do if a worker has not reached a ps for a whole lease although both reach the chief:
//
//   others reach the ps:        the worker loses its place. Its next process gets no work before
//                               it has reached all ps, so a link that stays broken stops the run
//                               once.
//   most workers do not either: the ps loses its place and is restarted. If the same workers still
//                               cannot reach it one lease later, the restart did not help: then
//                               these workers lose their places, unless no worker reaches the ps.
//
// Not thread-safe; it has no clock: times come from the session.
class Reachability {
 public:
  explicit Reachability(absl::Duration lease) : lease_(lease) {}

  // Takes from a worker's heartbeat the ps that do not answer it, and whether all ps have answered
  // it. Returns true if the worker may work from now on but could not before.
  bool OnReport(absl::Time now, uint32_t worker, const std::set<uint32_t>& silent,
                bool reaches_all);
  // Drops the reports about the ps, because another process has its place or it does not serve.
  void ForgetPs(uint32_t ps);
  // Drops what is known about the worker, because it left or another process has its place.
  void ForgetWorker(uint32_t worker);

  // Returns whether the worker may get work.
  bool MayWork(uint32_t worker) const { return suspects_.count(worker) == 0; }

  struct Verdict {
    bool is_about_ps = false;  // False: it is about the worker.
    // A worker that has not reached a ps, for how long, and how many other workers have not reached
    // it either.
    uint32_t ps = 0;
    uint32_t worker = 0;
    size_t others = 0;
    absl::Duration silence;
  };
  // Returns the tasks that lose their places now. `workers` are those that have work.
  std::vector<Verdict> Judge(absl::Time now, const std::vector<uint32_t>& workers);

  // Returns the ps that the worker does not reach, each with the time since when.
  const std::map<uint32_t, absl::Time>& Silent(uint32_t worker) const;

 private:
  // Removes the worker from `restarted_`, and then each ps there for which no worker is left.
  void ForgetInRestarts(uint32_t worker);

  const absl::Duration lease_;
  // Keyed by worker, then by ps.
  std::map<uint32_t, std::map<uint32_t, absl::Time>> silent_since_;
  std::set<uint32_t> suspects_;  // Workers that have to reach all ps first.
  // Ps that lost their places, and the workers that have not reached them since.
  std::map<uint32_t, std::set<uint32_t>> restarted_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_REACHABILITY_H_
