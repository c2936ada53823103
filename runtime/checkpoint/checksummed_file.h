// The files of a checkpoint. They are written once, are durable before they get their name, and are
// checked block by block when read.
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

// Writes `name`.tmp in a directory and renames it when it is complete and synced. After any error
// the file is removed and another must be started, because a file whose sync failed may have lost
// bytes that a second sync would not report. Not thread-safe.
class ChecksummedFileWriter {
 public:
  // The file system must outlive the writer. Returns ResourceExhausted if fewer than
  // `expected_bytes` are free.
  static absl::StatusOr<std::unique_ptr<ChecksummedFileWriter>> Create(FileSystem& file_system,
                                                                       const std::string& directory,
                                                                       const std::string& name,
                                                                       uint64_t expected_bytes);
  ~ChecksummedFileWriter();

  absl::Status Append(absl::string_view bytes);

  // Completes the file. The caller must sync the directory to make the name durable. Returns
  // AlreadyExists if a file with other contents has the name. A file with the same contents is
  // kept: an earlier attempt to write the checkpoint gave it the name and then failed at another
  // file.
  absl::StatusOr<BlockChecksums> Finish();

 private:
  ChecksummedFileWriter(FileSystem& file_system, const std::string& path);
  absl::Status Flush();
  // Returns whether the file of this name has the bytes that were appended here.
  bool HasTheSameContents() const;

  FileSystem& file_system_;
  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<WritableFile> file_;  // null after an error or Finish
  std::string buffer_;
  BlockChecksums checksums_;
};

// Reads a file and checks its blocks against their checksums. Not thread-safe.
class ChecksummedFileReader {
 public:
  // Opens a file. Returns DataLoss if its size is not that of the checksums.
  static absl::StatusOr<std::unique_ptr<ChecksummedFileReader>> Open(FileSystem& file_system,
                                                                     const std::string& path,
                                                                     BlockChecksums checksums);

  // Reads exactly out.size() bytes from checked blocks. DataLoss names the file and the block.
  absl::Status Read(uint64_t offset, absl::Span<char> out);

  // Reads and checks the whole file.
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
