#ifndef SHOAL_ML_DATA_RECORDS_TF_RECORD_FILE_H_
#define SHOAL_ML_DATA_RECORDS_TF_RECORD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/file_system.h"

namespace shoal {

// Gives random access to the records of one TFRecord file. The file has for each record its length
// (64 bits), the masked CRC-32C of these 8 bytes, the record, and the masked CRC-32C of the record,
// all little-endian. Thread-safe.
class TfRecordFile {
 public:
  // Reads the lengths of all records to find their positions; the records stay on the disk. Errors
  // name the file and the record: NotFound, DataLoss (truncated, damaged, compressed).
  static absl::StatusOr<std::unique_ptr<TfRecordFile>> Open(FileSystem& files,
                                                            const std::string& path);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  const std::string& path() const { return path_; }

  // Returns a hash of the checksums of all records.
  uint64_t fingerprint() const { return fingerprint_; }

  // Reads a record into `buffer`, whose memory is reused, and checks its checksum. The result
  // points into `buffer`.
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

// Returns the bytes of a TFRecord file for this record: lengths and checksums included.
std::string FrameTfRecord(absl::string_view record);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_RECORDS_TF_RECORD_FILE_H_
