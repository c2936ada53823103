#ifndef SHOAL_CHIEF_REACHABILITY_H_
#define SHOAL_CHIEF_REACHABILITY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace shoal {

// Knows which worker reaches which ps on the bulk path, from their heartbeats, and says what
// follows when a worker has not reached a ps for a whole lease although the chief hears both:
//
//   others reach the ps:        the worker loses its place. Its next process gets no work before
//                               it has reached all ps, so a link that stays broken stops the run
//                               once.
//   most workers do not either: the ps loses its place and is started again. That was no remedy
//                               where the same workers still do not reach it a lease later: then
//                               those lose their places, unless nobody reaches it.
//
// Single-threaded, no clock: times come from the session.
class Reachability {
 public:
  explicit Reachability(absl::Duration lease) : lease_(lease) {}

  // A worker's heartbeat: the ps that do not answer it, and whether all ps have answered it.
  // True: the worker may work now, and could not before.
  bool OnReport(absl::Time now, uint32_t worker, const std::set<uint32_t>& silent,
                bool reaches_all);
  // What was reported of the ps is void: it is another process, or does not serve.
  void ForgetPs(uint32_t ps);
  // The worker left, or another process has its place.
  void ForgetWorker(uint32_t worker);

  // Whether the worker may have a part of the work.
  bool MayWork(uint32_t worker) const { return suspects_.count(worker) == 0; }

  struct Verdict {
    bool is_about_ps = false;  // Else about the worker.
    uint32_t ps = 0;           // The one that is not reached,
    uint32_t worker = 0;       // by this worker,
    size_t others = 0;         // and by so many others.
    absl::Duration silence;    // Since when.
  };
  // Who loses its place now, of the workers that have a part of the work.
  std::vector<Verdict> Judge(absl::Time now, const std::vector<uint32_t>& workers);

  // The ps that the worker does not reach, with since when.
  const std::map<uint32_t, absl::Time>& Silent(uint32_t worker) const;

 private:
  const absl::Duration lease_;
  // By worker, by ps.
  std::map<uint32_t, std::map<uint32_t, absl::Time>> silent_since_;
  std::set<uint32_t> suspects_;  // Workers that have to reach all ps first.
  // Ps that lost their places, and who has not reached them since.
  std::map<uint32_t, std::set<uint32_t>> restarted_;
  void EndsRestart(uint32_t worker);
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_REACHABILITY_H_
