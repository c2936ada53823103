// Files that a checkpoint is made of: written once, durable before they have their name, checked
// block by block when read.
#ifndef SHOAL_RUNTIME_CHECKPOINT_CHECKSUMMED_FILE_H_
#define SHOAL_RUNTIME_CHECKPOINT_CHECKSUMMED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "runtime/checkpoint/block_checksums.h"

namespace shoal {

// Writes `name`.tmp in a directory and gives it its name when it is whole and synced. After any
// error the file is dead: it is removed, and another must be begun (a file whose sync failed may
// have lost bytes that a second sync would not report). Not thread safe.
class ChecksummedFileWriter {
 public:
  // The file system must outlive the writer. ResourceExhausted if fewer than `expected_bytes` are
  // free.
  static absl::StatusOr<std::unique_ptr<ChecksummedFileWriter>> Create(FileSystem& file_system,
                                                                       const std::string& directory,
                                                                       const std::string& name,
                                                                       uint64_t expected_bytes);
  ~ChecksummedFileWriter();

  absl::Status Append(absl::string_view bytes);

  // Durable but for the directory's own sync, which is the caller's. AlreadyExists if the name is
  // taken.
  absl::StatusOr<BlockChecksums> Finish();

 private:
  ChecksummedFileWriter(FileSystem& file_system, const std::string& path);
  absl::Status Flush();

  FileSystem& file_system_;
  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<WritableFile> file_;  // null once it is dead or finished
  std::string buffer_;
  BlockChecksums checksums_;
};

// Reads a file through its block checksums. One thread at a time.
class ChecksummedFileReader {
 public:
  // DataLoss if the file's size is not that of the checksums.
  static absl::StatusOr<std::unique_ptr<ChecksummedFileReader>> Open(FileSystem& file_system,
                                                                     const std::string& path,
                                                                     BlockChecksums checksums);

  // Exactly these bytes, from blocks that were checked. DataLoss names the file and the block.
  absl::Status Read(uint64_t offset, absl::Span<char> out);

  // Reads everything once.
  absl::Status VerifyAll();

  const ReadableFile& file() const { return *file_; }

 private:
  ChecksummedFileReader(std::string path, std::unique_ptr<ReadableFile> file,
                        BlockChecksums checksums);
  absl::Status LoadBlock(uint64_t index);

  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  const BlockChecksums checksums_;
  std::string block_;  // the last block read
  uint64_t block_index_ = UINT64_MAX;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKSUMMED_FILE_H_
