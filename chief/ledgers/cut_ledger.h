#ifndef SHOAL_CHIEF_LEDGERS_CUT_LEDGER_H_
#define SHOAL_CHIEF_LEDGERS_CUT_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/v1/checkpoint.pb.h"

namespace shoal {

// Cuts of the variables on their way to durable checkpoints. A cut is complete when every ps has
// reported its shard; it is durable when the chief has written the manifest that names all shards.
// A requested cut is agreed on first: the chief names a version ahead of all slices and every ps
// acknowledges it; if a ps reports that it has passed the version, the chief names a later one.
//
// Not thread-safe. Reports may be repeated.
class CutLedger {
 public:
  explicit CutLedger(uint32_t num_ps) : num_ps_(num_ps), parts_(num_ps) {}

  // The role of a ps in each cut, which follows from the shard map. A ps without slices writes
  // nothing. The slices of a ps may all be variables without contributions: such a ps counts no
  // versions and does not know when to begin a cut, so the chief reminds it of each one.
  struct Part {
    bool has_slices = true;
    bool has_versions = true;
  };
  void SetParts(const std::vector<Part>& parts);
  std::vector<uint32_t> PsWithSlices() const;
  // A ps without versions that has to be asked for its shard of a cut that other ps have begun.
  struct Reminder {
    uint32_t ps = 0;
    uint64_t version = 0;
  };
  std::vector<Reminder> Reminders() const;

  // --- Shards.
  void AddShard(uint32_t ps, uint64_t version, const std::string& directory,
                const v1::ShardFile& file);
  // Notes that a shard of the cut could not be written: the cut will never be complete, whatever
  // else is reported. Also ends a request of this version.
  void Fail(uint64_t version);
  bool HasFailed(uint64_t version) const { return failed_.count(version) > 0; }
  struct Complete {
    uint64_t version = 0;
    std::string directory;
    std::vector<v1::ShardFile> shards;  // indexed by ps
  };
  // Returns the ps that have slices and have not reported their shard of the cut; none if it is
  // durable.
  std::vector<uint32_t> WithoutShard(uint64_t version) const;
  // Returns the complete cut of the lowest version above the last durable one, but none above
  // `newest`. Returns each cut only once.
  std::optional<Complete> TakeComplete(uint64_t newest = UINT64_MAX);
  // Returns the complete cuts, by version and directory, that need not become checkpoints because
  // a newer one waits as well: all that TakeComplete would still return, except the newest.
  std::vector<std::pair<uint64_t, std::string>> Superseded(uint64_t newest = UINT64_MAX) const;
  bool has_complete() const;  // A complete cut was not taken yet.
  // Returns the newest version that is durable, or was taken to become durable.
  uint64_t newest_taken() const;
  // Notes that the manifest of a taken cut is durable.
  void OnDurable(uint64_t version);
  // Notes that the run resumes from the manifest of this version.
  void Restore(uint64_t version, const std::string& directory);
  uint64_t durable_version() const { return durable_version_; }
  // Empty: there is no checkpoint, only the initial values.
  const std::string& durable_directory() const { return durable_directory_; }

  // --- A requested cut.
  // Starts the agreement on a version. Does nothing while another agreement is under way.
  void Request(uint64_t version);
  // Requests the newest version that any slice is known to have reached, instead of a later one.
  // Call it when no slice advances any more. `newest_step` is the newest step that a ps has
  // reported.
  void RequestReached(uint64_t newest_step);
  bool requested() const { return requested_.has_value(); }
  uint64_t requested_version() const { return requested_->version; }
  // Returns the ps that have not agreed to the requested version.
  std::vector<uint32_t> PsToAsk() const;
  struct Answer {
    bool passed = false;          // Some slice of the ps is past the version already.
    bool waits = false;           // Some slice of the ps has not reached the version.
    uint64_t newest_version = 0;  // The version of the ps's most advanced slice.
  };
  void OnAnswer(uint32_t ps, uint64_t version, const Answer& answer);
  // Returns whether a ps waited for the requested version when it answered and has not reported its
  // shard since then.
  bool SomePsWaits() const;
  // Ends the request: its version has become durable or is given up.
  void EndRequest() { requested_.reset(); }

  // Notes that all slices went back to a checkpoint, so shards that are being written are useless.
  void OnRollback();

 private:
  struct Requested {
    uint64_t version = 0;
    std::set<uint32_t> acknowledged = {};
    std::set<uint32_t> waiting = {};  // The ps that had slices below the version.
    // The distance to the most advanced slice; it grows while the ps are faster than the chief.
    uint64_t steps_ahead = 2;
  };
  struct Cut {
    bool IsComplete(const std::vector<Part>& parts) const;

    std::string directory;
    std::map<uint32_t, v1::ShardFile> shards;
    bool taken = false;
  };

  const uint32_t num_ps_;
  std::vector<Part> parts_;  // Keyed by ps.
  uint64_t durable_version_ = 0;
  std::string durable_directory_;
  std::map<uint64_t, Cut> cuts_;
  std::set<uint64_t> failed_;  // Versions above the durable one, in this lineage.
  std::optional<Requested> requested_;
  uint64_t newest_answered_ = 0;  // The most advanced slice in the answers of this lineage.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_CUT_LEDGER_H_
