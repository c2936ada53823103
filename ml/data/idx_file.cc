#include "ml/data/idx_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "ml/data/records/unreadable_data.h"

namespace shoal {
namespace {

constexpr uint32_t kUnsignedByte = 0x08;
// Deflate compresses at most 1032 bytes into one. A header that declares more is wrong, and no
// memory is allocated for it.
constexpr int64_t kLargestRatio = 1032;

// A file that is read through zlib, which does not change plain files.
class GzipReader {
 public:
  explicit GzipReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {}
  ~GzipReader() {
    if (file_ != nullptr) gzclose_r(file_);
  }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  bool is_open() const { return file_ != nullptr; }

  // Fills `bytes` with `size` bytes or says which `field` could not be read.
  absl::Status Read(const char* field, size_t size, uint8_t* bytes) {
    size_t done = 0;
    while (done < size) {
      const unsigned piece = static_cast<unsigned>(std::min<size_t>(size - done, 1 << 26));
      const int read = gzread(file_, bytes + done, piece);
      if (read < 0) return Damaged(field, errno);
      if (read == 0) {
        return absl::DataLossError(absl::StrCat(path_, ": truncated in its ", field, ": ", done,
                                                " of ", size,
                                                " bytes are there; fetch the file again"));
      }
      done += static_cast<size_t>(read);
    }
    return absl::OkStatus();
  }

  // Nothing may follow; this is also where zlib checks the sum of the content.
  absl::Status ExpectEnd() {
    uint8_t extra = 0;
    const int read = gzread(file_, &extra, 1);
    const int system_error = errno;
    if (read > 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": has more bytes than its header announces; fetch the file again"));
    }
    int error = Z_OK;
    gzerror(file_, &error);
    return read < 0 || error != Z_OK ? Damaged("checksum", system_error) : absl::OkStatus();
  }

 private:
  absl::Status Damaged(const char* field, int system_error) {
    int error = Z_OK;
    const char* reason = gzerror(file_, &error);
    if (error == Z_ERRNO) return UnreadableData(StatusOfErrno(system_error, path_));
    return absl::DataLossError(
        absl::StrCat(path_, ": damaged in its ", field, " (", reason, "); fetch the file again"));
  }

  const std::string path_;
  gzFile file_;
};

uint32_t BigEndian32(const uint8_t* b) {
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
}

absl::Status CheckMagic(const std::string& path, uint32_t magic, int rank) {
  const uint32_t expected = kUnsignedByte << 8 | static_cast<uint32_t>(rank);
  if (magic == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: magic number is 0x%08x, expected 0x%08x (IDX, unsigned bytes, %d "
                      "dimensions); is it the right "
                      "file?",
                      path, magic, expected, rank));
}

// Returns the number of bytes that the dimensions declare, if the file can contain as many.
absl::StatusOr<int64_t> PayloadBytes(const std::string& path, const std::vector<int64_t>& dims) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return UnreadableData(StatusOfErrno(errno, path));
  const int64_t most = static_cast<int64_t>(file.st_size) * kLargestRatio;
  int64_t bytes = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == 0) {
      return absl::DataLossError(
          absl::StrCat(path, ": dimension ", k, " is 0: the file holds no data"));
    }
    if (dims[k] > most / bytes) {
      return absl::DataLossError(absl::StrCat(path, ": dimension ", k, " is ", dims[k],
                                              ", more than the file's ", file.st_size,
                                              " bytes can hold; fetch the file again"));
    }
    bytes *= dims[k];
  }
  return bytes;
}

}  // namespace

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int rank) {
  GzipReader reader(path);
  if (!reader.is_open()) return UnreadableData(StatusOfErrno(errno, path));
  uint8_t word[4] = {};
  RETURN_IF_ERROR(reader.Read("magic number", sizeof(word), word));
  RETURN_IF_ERROR(CheckMagic(path, BigEndian32(word), rank));
  IdxFile file;
  for (int k = 0; k < rank; ++k) {
    RETURN_IF_ERROR(reader.Read("dimensions", sizeof(word), word));
    file.dims.push_back(BigEndian32(word));
  }
  ASSIGN_OR_RETURN(const int64_t bytes, PayloadBytes(path, file.dims));
  file.bytes.resize(static_cast<size_t>(bytes));
  RETURN_IF_ERROR(reader.Read("data", file.bytes.size(), file.bytes.data()));
  RETURN_IF_ERROR(reader.ExpectEnd());
  return file;
}

}  // namespace shoal
