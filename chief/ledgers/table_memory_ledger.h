#ifndef SHOAL_CHIEF_LEDGERS_TABLE_MEMORY_LEDGER_H_
#define SHOAL_CHIEF_LEDGERS_TABLE_MEMORY_LEDGER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"

namespace shoal {

// Keeps what the ps report about the rows of tables and their memory: how fast they grow, and which
// ps will soon have no room. Single-threaded.
class TableMemoryLedger {
 public:
  // Takes the number of ps and the number of buckets of each table, keyed by its name. The remedies
  // depend on them.
  void SetBuckets(uint32_t num_ps, std::map<std::string, uint32_t> buckets);
  // The run has reached this step. Call it before the OnReport of the same moment.
  void OnStep(absl::Time now, uint64_t step);
  // Takes a report of a ps that serves `lineage`. A report of another lineage than the one before
  // begins the growth anew, because the ps has loaded other rows. Ps with the same `host` share the
  // memory of a machine.
  void OnReport(absl::Time now, uint32_t ps, uint64_t lineage, const v1::PsMemory& memory,
                absl::string_view host = "");
  // The ps has lost its rows.
  void OnPsLost(uint32_t ps) { ps_.erase(ps); }

  // Names the ps with the least room if it has used 90 % of its memory, with its tables, how fast
  // it grows, when it will be full, and what to do. Otherwise empty.
  std::string Warning() const;
  // Returns an error that says which ps is full, or will be at its growth before a checkpoint can
  // end the run, and what to do. FAILED_PRECONDITION: the tables of the run need more than the ps
  // may use, or the rows of a table are near the limit of 2^31 in each of its buckets, so a restart
  // would not help. UNAVAILABLE: other processes of the machine have taken the memory, and all
  // reports of the last twenty seconds (or six steps) said so. A shorter shortage, and room for
  // every ps, are OK.
  absl::Status WhyFull() const;

  // Adds the tables, in the order of their names, and the warning.
  void Describe(v1::GetRunStatusResponse* response) const;

  // Returns the tables, in the order of their names, for the next line of metrics.jsonl; none if no
  // ps has reported any, or if the line is not that of an evaluated step and the reports of the
  // last ten seconds were in a line already.
  std::vector<v1::GetRunStatusResponse::Table> TakeForLine(bool is_evaluated);

 private:
  struct Sample {
    absl::Time time;
    uint64_t used = 0;
    uint64_t limit = 0;
    std::map<std::string, uint64_t> rows;  // keyed by table
  };
  struct Ps {
    uint64_t lineage = 0;
    v1::PsMemory memory;         // the newest report
    std::deque<Sample> samples;  // reports of the last seconds, the oldest first; never empty
    std::string host;
    // The most memory that the ps of this host together could ever use in the time of this process.
    uint64_t most_of_host = 0;
    // Since when other processes leave the ps too little, by all reports; infinite: they do not.
    absl::Time short_since = absl::InfiniteFuture();

    // Returns how fast the room of the ps shrinks: its tables grow, or other processes take the
    // memory of its machine.
    double BytesPerSecond() const;
    double RowsPerSecond(const std::string& table) const;
    // The part of the limit that is used.
    double part() const;
    bool IsFull(double seconds_ahead) const;
  };
  struct Step {
    absl::Time time;  // when OnStep was called
    uint64_t step = 0;
  };
  // Returns how long a step takes; 0: it is not known yet.
  double SecondsPerStep() const;
  // Returns the time over which growth is measured.
  absl::Duration Window() const;
  // Returns how long a shortage that others cause has to last. It is longer than Window(), so that
  // a process that took memory within seconds no longer looks like one that takes ever more.
  absl::Duration Patience() const { return 2 * Window(); }
  // Returns the time that the run needs for its last checkpoint.
  double SecondsAhead() const;
  // Returns an error that names a table whose buckets are nearly full of rows.
  absl::Status CheckRows() const;
  // Returns whether other processes, which are not ps of this run, have the memory that the ps
  // lacks.
  bool IsTakenByOthers(const Ps& ps) const;
  std::vector<v1::GetRunStatusResponse::Table> Tables() const;
  // Returns the ps that has used the largest part of its memory; ps_ is not empty.
  const std::pair<const uint32_t, Ps>& Fullest() const;
  // Says what a user can do about a ps with this memory.
  std::string Remedy(const v1::PsMemory& memory) const;

  uint32_t num_ps_ = 0;
  std::map<std::string, uint32_t> buckets_;  // keyed by table
  std::map<uint32_t, Ps> ps_;
  std::optional<uint64_t> newest_step_;
  std::deque<Step> steps_;  // steps of the last seconds, at least two; the oldest first
  absl::Time newest_report_ = absl::InfinitePast();
  absl::Time in_line_ = absl::InfinitePast();  // the newest report when a line had the tables
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_TABLE_MEMORY_LEDGER_H_
