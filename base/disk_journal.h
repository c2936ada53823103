// (testonly) Records all changes of a disk, and computes the possible states after a power cut.
#ifndef SHOAL_BASE_DISK_JOURNAL_H_
#define SHOAL_BASE_DISK_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

// The files and directories of a disk by number; 0 is the root.
struct DiskImage {
  struct Node {
    bool is_directory = false;
    std::string bytes;
    std::map<std::string, uint64_t> entries;
  };
  std::map<uint64_t, Node> nodes;
};

// The fate of changes that were not synced at the power cut.
enum class PowerCut {
  kKeepsAll,  // All changes are kept, as if there were no power cut.
  kLosesAll,  // All of them are lost.
  // The first changes of each file and directory are kept, the last of those only in part.
  kTearsLast,
  // Any changes of each file and directory are kept, and any blocks of a write.
  kReordersAll
};

// The journal assumes only the guarantees of POSIX: a file's bytes are safe after its sync, a
// directory's names after the directory's sync, and a rename within a directory is atomic. Not
// thread-safe.
class DiskJournal {
 public:
  // kEnter adds a name to a directory, for a new or an existing node; kErase removes a name.
  enum Kind { kWrite, kTruncate, kSyncFile, kEnter, kRename, kErase, kSyncDirectory };
  struct Change {
    Kind kind = kWrite;
    uint64_t node = 0;   // The file, or the directory.
    uint64_t where = 0;  // kWrite: the offset in bytes. kTruncate: the new size in bytes.
    // The bytes of a kWrite; otherwise the name in the directory.
    std::string bytes = {};
    std::string from = {};      // kRename: the old name.
    uint64_t entered = 0;       // kEnter, kRename: the node that has the name from now on.
    bool is_directory = false;  // The entered node is a directory.
  };

  // Starts with an empty disk.
  DiskJournal() = default;
  void Add(Change change) { changes_.push_back(std::move(change)); }

  const std::vector<Change>& changes() const { return changes_; }
  // Returns the disk after a power cut that followed the first `num_changes`. The same seed gives
  // the same disk.
  DiskImage After(size_t num_changes, PowerCut cut, uint64_t seed) const;

 private:
  std::vector<Change> changes_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_DISK_JOURNAL_H_
