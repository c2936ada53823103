#include "ml/data/records/text_lines.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "ml/data/records/unreadable_data.h"

namespace shoal {
namespace {

constexpr size_t kPiece = size_t{1} << 18;
constexpr size_t kLongestLine = size_t{1} << 24;
constexpr unsigned char kZstd[] = {0x28, 0xb5, 0x2f, 0xfd};

absl::Status Damaged(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": is damaged (", why, "); fetch the file again"));
}

// zlib does not change plain files.
class GzipLines final : public TextLines {
 public:
  GzipLines(std::string path, gzFile file) : TextLines(std::move(path)), file_(file) {}
  ~GzipLines() override { gzclose_r(file_); }

 private:
  absl::StatusOr<size_t> Read(char* bytes, size_t size) override {
    const int count = gzread(file_, bytes, static_cast<unsigned>(size));
    const int system_error = errno;
    int error = Z_OK;
    const char* reason = gzerror(file_, &error);
    if (error == Z_ERRNO) return UnreadableData(StatusOfErrno(system_error, path()));
    if (count < 0 || (error != Z_OK && error != Z_STREAM_END)) return Damaged(path(), reason);
    return static_cast<size_t>(count);
  }

  const gzFile file_;
};

class ZstdLines final : public TextLines {
 public:
  ZstdLines(std::string path, std::FILE* file)
      : TextLines(std::move(path)),
        file_(file),
        stream_(ZSTD_createDStream()),
        compressed_(ZSTD_DStreamInSize()) {}
  ~ZstdLines() override {
    ZSTD_freeDStream(stream_);
    std::fclose(file_);
  }

 private:
  absl::StatusOr<size_t> Read(char* bytes, size_t size) override {
    ZSTD_outBuffer out = {bytes, size, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        in_ = {compressed_.data(), std::fread(compressed_.data(), 1, compressed_.size(), file_), 0};
        if (std::ferror(file_) != 0) return UnreadableData(StatusOfErrno(errno, path()));
        if (in_.size == 0) {
          if (wanted_ != 0) return Damaged(path(), "it ends within a frame");
          return size_t{0};
        }
      }
      wanted_ = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(wanted_) != 0) return Damaged(path(), ZSTD_getErrorName(wanted_));
    }
    return out.pos;
  }

  std::FILE* const file_;
  ZSTD_DStream* const stream_;
  std::vector<char> compressed_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  size_t wanted_ = 0;  // 0: a frame is complete
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextLines>> TextLines::Open(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return UnreadableData(StatusOfErrno(errno, path));
  unsigned char first[sizeof(kZstd)] = {};
  const size_t count = std::fread(first, 1, sizeof(first), file);
  if (std::ferror(file) != 0) {  // a directory
    const absl::Status unreadable = UnreadableData(StatusOfErrno(errno, path));
    std::fclose(file);
    return unreadable;
  }
  if (count == sizeof(first) && std::memcmp(first, kZstd, sizeof(first)) == 0) {
    std::rewind(file);
    return {std::make_unique<ZstdLines>(path, file)};
  }
  std::fclose(file);
  const gzFile gzip = gzopen(path.c_str(), "rb");
  if (gzip == nullptr) return UnreadableData(StatusOfErrno(errno, path));
  return {std::make_unique<GzipLines>(path, gzip)};
}

absl::StatusOr<bool> TextLines::Next(absl::string_view* line) {
  size_t searched = begin_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (is_at_end_ && begin_ < buffer_.size())) {
      *line =
          absl::string_view(buffer_).substr(begin_, end == std::string::npos ? end : end - begin_);
      begin_ = end == std::string::npos ? buffer_.size() : end + 1;
      absl::ConsumeSuffix(line, "\r");
      ++number_;
      return true;
    }
    if (is_at_end_) return false;
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    if (searched > kLongestLine) {
      return absl::DataLossError(absl::StrCat(path_, ":", number_ + 1, ": is longer than ",
                                              kLongestLine >> 20, " MiB; is this a text file?"));
    }
    buffer_.resize(searched + kPiece);
    ASSIGN_OR_RETURN(const size_t count, Read(&buffer_[searched], kPiece));
    buffer_.resize(searched + count);
    is_at_end_ = count == 0;
  }
}

}  // namespace shoal
