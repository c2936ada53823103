#ifndef SHOAL_CHIEF_LEDGERS_EXPORT_LEDGER_H_
#define SHOAL_CHIEF_LEDGERS_EXPORT_LEDGER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace shoal {

// Decides which checkpoints get a model.safetensors, and remembers which ps have written their
// parts of it. Only the end of a run waits for an export. Not thread-safe.
class ExportLedger {
 public:
  // One cut in `every` gets an export; 0: only the cuts that must have one.
  explicit ExportLedger(uint64_t every) : every_(every) {}

  // Notes that a ps has written its shard of the cut. The first shard decides whether the cut gets
  // an export.
  void OnShard(uint64_t version, bool must_have_one);
  bool IsWanted(uint64_t version) const;

  void AddPart(uint32_t ps, uint64_t version);
  // Notes that a ps will not write its part.
  void Fail(uint64_t version);
  // Notes that the ps is lost and will not write its remaining parts.
  void OnPsLost(uint32_t ps);

  // Returns which of `ps` have not yet written their parts of a wanted export.
  std::vector<uint32_t> Missing(uint64_t version, const std::vector<uint32_t>& ps) const;

  void Forget(uint64_t version) { exports_.erase(version); }
  void ForgetBelow(uint64_t version) {
    exports_.erase(exports_.begin(), exports_.lower_bound(version));
  }
  void OnRollback() { exports_.clear(); }

 private:
  struct Export {
    bool wanted = false;  // And still possible.
    std::set<uint32_t> parts;
  };

  const uint64_t every_;
  uint64_t num_cuts_ = 0;
  std::map<uint64_t, Export> exports_;  // Keyed by version.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_EXPORT_LEDGER_H_
