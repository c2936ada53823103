// The seam to the disk: what must survive a crash is written through a FileSystem, so that tests
// can put a faulty one in its place (faulty_file_system.h).
//
// Durability is POSIX's: bytes are safe after Sync, names (created, renamed, linked, removed) after
// SyncDirectory of their directory. Errors name the path; a full disk is kResourceExhausted, a
// missing file kNotFound, one in the way kAlreadyExists.
#ifndef SHOAL_BASE_FILE_SYSTEM_H_
#define SHOAL_BASE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// Not thread safe. The destructor closes, without telling of errors.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Only for a file of OpenForUpdate. What lies between the end of the file and `offset` becomes
  // zeros.
  virtual absl::Status WriteAt(uint64_t offset, absl::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// Thread safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Bytes read from `offset` on; fewer than out.size() only at the end of the file.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<char> out) const = 0;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
};

struct FileInfo {
  bool is_directory = false;
  uint64_t size = 0;
};

// Thread safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // An empty file in place of whatever file was there.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Goes on at the end of the file; an absent one is created.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) = 0;
  // Keeps what the file has, for WriteAt; an absent one is created. Several processes may write to
  // different places of one file.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForUpdate(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) = 0;

  // Replaces a file at `to`, at once.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // A second name for a file; fails, without touching it, if something has that name.
  virtual absl::Status LinkNoOverwrite(const std::string& from, const std::string& to) = 0;
  // A file or an empty directory.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Cuts the file, or extends it with zeros.
  virtual absl::Status Truncate(const std::string& path, uint64_t size) = 0;

  // Makes the directory and the missing directories above it; an existing directory is fine.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Names in the directory, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) const = 0;
  virtual absl::StatusOr<FileInfo> GetInfo(const std::string& path) const = 0;
  // Bytes that can still be written to the file system that holds `path`.
  virtual absl::StatusOr<uint64_t> SpaceLeft(const std::string& path) const = 0;
};

// The disk.
std::unique_ptr<FileSystem> NewPosixFileSystem();

// After it returned, and after any crash later, `path` holds all of `contents`; after a crash or an
// error before, what it held earlier. Goes through `path`.tmp: one writer at a time for one path.
absl::Status WriteAtomically(FileSystem& file_system, const std::string& path,
                             absl::string_view contents);

// The whole file; kResourceExhausted if it is longer than max_size.
absl::StatusOr<std::string> ReadFile(FileSystem& file_system, const std::string& path,
                                     uint64_t max_size = uint64_t{1} << 30);

// The path and all below it. An absent path is fine. Not atomic.
absl::Status RemoveTree(FileSystem& file_system, const std::string& path);

// False also for what cannot be looked at.
bool FileExists(const FileSystem& file_system, const std::string& path);

std::string JoinPath(absl::string_view directory, absl::string_view name);
// "a/b/c" -> "a/b"; "c" -> "."; "/c" -> "/".
std::string ParentDirectory(absl::string_view path);

}  // namespace shoal

#endif  // SHOAL_BASE_FILE_SYSTEM_H_
