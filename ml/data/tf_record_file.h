#ifndef SHOAL_ML_DATA_TF_RECORD_FILE_H_
#define SHOAL_ML_DATA_TF_RECORD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/file_system.h"

namespace shoal {

// Random access to the records of one TFRecord file: for each record its length as 64 bits, the
// masked CRC-32C of those 8 bytes, the record, and the masked CRC-32C of the record, little-endian.
// Thread safe.
class TfRecordFile {
 public:
  // Reads all lengths, to know where every record is; the records stay on the disk. Errors name the
  // file and the record: NotFound, DataLoss (truncated, damaged, compressed).
  static absl::StatusOr<std::unique_ptr<TfRecordFile>> Open(FileSystem& files,
                                                            const std::string& path);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  const std::string& path() const { return path_; }

  // Combines the checksums of all records.
  uint64_t fingerprint() const { return fingerprint_; }

  // The record, checked against its checksum. `buffer` is where it is held and may be used again.
  absl::StatusOr<absl::string_view> Read(int64_t index, std::string* buffer) const;

 private:
  TfRecordFile(const std::string& path, std::unique_ptr<ReadableFile> file)
      : path_(path), file_(std::move(file)) {}

  absl::Status BuildIndex();
  absl::Status Damaged(absl::string_view what, int64_t index) const;

  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  std::vector<uint64_t> offsets_;  // offsets of the records' lengths, and the end of the file
  uint64_t fingerprint_ = 0;
};

// A record as it stands in a file.
std::string FrameTfRecord(absl::string_view record);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_TF_RECORD_FILE_H_
