#ifndef SHOAL_ML_DATA_RECORDS_TEXT_LINES_H_
#define SHOAL_ML_DATA_RECORDS_TEXT_LINES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Reads the lines of a text file that is plain, or compressed with gzip or zstd, whatever its name
// is. Memory does not grow with the file.
class TextLines {
 public:
  virtual ~TextLines() = default;

  // NotFound or another error names the file. It is Unavailable if it may pass (passing_errors.h).
  static absl::StatusOr<std::unique_ptr<TextLines>> Open(const std::string& path);

  // Sets `line` to the next line without its end ("\n" or "\r\n") and returns true; returns false
  // at the end of the file. The line is valid until the next call. DataLoss names the file: it is
  // damaged or truncated, or a line is longer than 16 MiB. Errors of the file system are those of
  // Open.
  absl::StatusOr<bool> Next(absl::string_view* line);

  // Returns the number of the last line, from 1.
  int64_t number() const { return number_; }

 protected:
  explicit TextLines(std::string path) : path_(std::move(path)) {}

  // Reads up to `size` bytes, decompressed; returns 0 at the end.
  virtual absl::StatusOr<size_t> Read(char* bytes, size_t size) = 0;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::string buffer_;
  size_t begin_ = 0;  // the place in buffer_ after the last line
  bool is_at_end_ = false;
  int64_t number_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_RECORDS_TEXT_LINES_H_
