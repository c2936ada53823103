// A file system in memory that fails and crashes on command, for tests of what must survive.
//
//   FaultyFileSystem disk;
//   disk.faults().FailFrom(n, absl::UnavailableError("off"));  // this and every later change fails
//   Save(disk).IgnoreError();
//   disk.Crash();                                              // what was not synced is gone
//   EXPECT_OK(Restore(disk));
#ifndef SHOAL_BASE_FAULTY_FILE_SYSTEM_H_
#define SHOAL_BASE_FAULTY_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/disk_faults.h"
#include "base/disk_journal.h"
#include "base/file_system.h"
#include "base/mutex.h"

namespace shoal {

// Paths are relative to one root; "." and a leading "/" both mean the root. Thread-safe.
class FaultyFileSystem : public FileSystem {
 public:
  FaultyFileSystem();
  // Starts with the image, all of it synced.
  explicit FaultyFileSystem(const DiskImage& image);
  ~FaultyFileSystem() override;

  // Records all changes that succeed from now on. The disk must be empty.
  void StartJournal() ABSL_LOCKS_EXCLUDED(mutex_);
  // Must not be used while the disk is changed.
  const DiskJournal& journal() const { return *journal_; }

  // The changes and reads of this disk that fail.
  DiskFaults& faults() { return faults_; }
  const DiskFaults& faults() const { return faults_; }

  // Limits the bytes of all files together; an append beyond the limit writes what fits and fails.
  void SetCapacity(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Simulates a disk that hangs: changes block until Release. Let them end before a crash.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  // Simulates a crash: keeps only synced bytes and names. Files opened before fail from now on.
  // Failures set before are cleared.
  void Crash() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForUpdate(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status LinkNoOverwrite(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override;
  absl::StatusOr<FileInfo> GetInfo(const std::string& path) const override;
  absl::StatusOr<uint64_t> SpaceLeft(const std::string& path) const override;

 private:
  class OpenFile;
  // A file or a directory, in its current state and in the state after a crash.
  struct Node {
    using Entries = std::map<std::string, std::shared_ptr<Node>>;

    uint64_t number = 0;
    bool is_directory = false;
    std::string bytes;
    std::string synced_bytes;
    Entries entries;
    Entries synced_entries;
  };
  // A name, which may not exist, and its directory.
  struct Place {
    Node* directory;
    std::string name;
  };

  // Waits while the disk is held, then counts the change.
  absl::Status BeginChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Node>> Find(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Node>> FindFile(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Place> FindPlace(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Node>> FindOrCreateFile(const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Node> NewNode(bool is_directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(DiskJournal::Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records that `name` in the directory is now the node.
  void NoteEntry(const Node& directory, const std::string& name, const Node& node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t BytesUsed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Writes at the offset, or appends if there is none.
  absl::Status Write(Node* file, int life, std::optional<uint64_t> offset, absl::string_view bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SyncFile(Node* file, int life) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable DiskFaults faults_;  // Const calls are counted as reads.
  mutable Mutex mutex_;
  CondVar released_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Node> root_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_nodes_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unique_ptr<DiskJournal> journal_;  // null if no journal is kept
  int life_ ABSL_GUARDED_BY(mutex_) = 0;  // the number of crashes so far
  uint64_t capacity_ ABSL_GUARDED_BY(mutex_) = uint64_t{1} << 40;
};

}  // namespace shoal

#endif  // SHOAL_BASE_FAULTY_FILE_SYSTEM_H_
