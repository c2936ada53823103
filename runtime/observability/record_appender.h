// Appends whole records to a file. Records that a full disk refuses wait in memory, and a part of a
// record never remains in the file.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_RECORD_APPENDER_H_
#define SHOAL_RUNTIME_OBSERVABILITY_RECORD_APPENDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "base/file_system.h"

namespace shoal {

// Not thread-safe.
class RecordAppender {
 public:
  explicit RecordAppender(FileSystem* file_system) : file_system_(file_system) {}

  // Appends to this file from now on. Its first `size` bytes are whole records, and it has no
  // others.
  absl::Status Open(const std::string& path, uint64_t size);
  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }  // empty before the first Open
  uint64_t size() const { return size_; }            // the bytes of the whole records in the file

  // Whole records that wait to be written.
  const std::string& waiting() const { return waiting_; }
  void SetWaiting(std::string records) { waiting_ = std::move(records); }
  void Add(const std::string& records) { waiting_ += records; }

  // Writes the waiting records; after an error all of them keep waiting. The file must be open.
  absl::Status Flush();

 private:
  FileSystem* const file_system_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;
  std::string waiting_;
  uint64_t size_ = 0;
  bool is_torn_ = false;  // bytes beyond size_ may be there
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_RECORD_APPENDER_H_
