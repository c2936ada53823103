// The interface to the disk. Data that must survive a crash are written through a FileSystem, so
// that tests can replace it with a faulty one (faulty_file_system.h).
//
// Durability is that of POSIX: bytes are safe after Sync, names (created, renamed, linked, removed)
// after SyncDirectory of their directory. Errors name the path. A full disk is kResourceExhausted,
// a missing file kNotFound, and an existing one that prevents the operation kAlreadyExists.
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

// Not thread-safe. The destructor closes the file and ignores errors.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Only for files of OpenForUpdate. Bytes between the end of the file and `offset` become zeros.
  virtual absl::Status WriteAt(uint64_t offset, absl::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// Thread safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Reads bytes starting at `offset`. Returns their number, which is below out.size() only at the
  // end of the file.
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

  // Creates an empty file, which replaces a file of that name.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // Opens a file to append to it; creates it if it is absent.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) = 0;
  // Opens a file for WriteAt and keeps its contents; creates it if it is absent. Several processes
  // may write to different ranges of one file.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForUpdate(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) = 0;

  // Renames a file and atomically replaces one at `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Gives a file a second name. Fails, without a change, if the name exists.
  virtual absl::Status LinkNoOverwrite(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty directory.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Truncates the file, or extends it with zeros.
  virtual absl::Status Truncate(const std::string& path, uint64_t size) = 0;

  // Creates the directory and missing directories above it; succeeds if it exists.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Returns the names in the directory, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) const = 0;
  virtual absl::StatusOr<FileInfo> GetInfo(const std::string& path) const = 0;
  // Returns the free bytes of the file system that holds `path`.
  virtual absl::StatusOr<uint64_t> SpaceLeft(const std::string& path) const = 0;
};

// Returns the file system of this machine.
std::unique_ptr<FileSystem> NewPosixFileSystem();

// Replaces the file's contents atomically and durably: after a crash or an error before this
// returns, the file has its old contents or all of the new ones; after that it has the new ones.
// Uses `path`.tmp, so a path can have only one writer at a time.
absl::Status WriteAtomically(FileSystem& file_system, const std::string& path,
                             absl::string_view contents);

// Returns the whole file; kResourceExhausted if it is longer than max_size.
absl::StatusOr<std::string> ReadFile(FileSystem& file_system, const std::string& path,
                                     uint64_t max_size = uint64_t{1} << 30);

// Removes the path and everything below it. Succeeds if the path is absent. Not atomic.
absl::Status RemoveTree(FileSystem& file_system, const std::string& path);

// Returns whether the file exists; false also if that cannot be determined.
bool FileExists(const FileSystem& file_system, const std::string& path);

std::string JoinPath(absl::string_view directory, absl::string_view name);
// "a/b/c" -> "a/b"; "c" -> "."; "/c" -> "/".
std::string ParentDirectory(absl::string_view path);

}  // namespace shoal

#endif  // SHOAL_BASE_FILE_SYSTEM_H_
