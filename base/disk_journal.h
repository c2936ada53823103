// (testonly) Everything that was done to a disk, and what a power cut may have left of it.
#ifndef SHOAL_BASE_DISK_JOURNAL_H_
#define SHOAL_BASE_DISK_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

// Files and directories by number; 0 is the root.
struct DiskImage {
  struct Node {
    bool is_directory = false;
    std::string bytes;
    std::map<std::string, uint64_t> entries;
  };
  std::map<uint64_t, Node> nodes;
};

// What was not synced when the power went.
enum class PowerCut {
  kKeepsAll,    // All of it is there: no power cut.
  kLosesAll,    // Nothing of it is there.
  kTearsLast,   // Of each file and directory the first changes are there, the last of them in part.
  kReordersAll  // Of each file and directory any changes are there, of a write any blocks.
};

// POSIX's promises and no more: a file's bytes are safe after its sync, a directory's names after
// the directory's, and a rename within a directory is there or not. Not thread-safe.
class DiskJournal {
 public:
  enum Kind { kWrite, kTruncate, kSyncFile, kEnter, kRename, kErase, kSyncDirectory };
  struct Change {
    Kind kind = kWrite;
    uint64_t node = 0;       // The file, or the directory.
    uint64_t where = 0;      // kWrite: the offset. kTruncate: the size.
    std::string bytes = {};  // kWrite; else the name in the directory,
    std::string from = {};   // and the one that kRename takes away.
    uint64_t entered = 0;
    bool is_directory = false;  // What was entered.
  };

  // On an empty disk.
  DiskJournal() = default;
  void Add(Change change) { changes_.push_back(std::move(change)); }

  const std::vector<Change>& changes() const { return changes_; }
  // The disk when the power went after the first `num_changes`. The same seed gives the same disk.
  DiskImage After(size_t num_changes, PowerCut cut, uint64_t seed) const;

 private:
  std::vector<Change> changes_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_DISK_JOURNAL_H_
