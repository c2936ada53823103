#include "ml/data/records/tf_record_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/crc32c.h"
#include "base/hash.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr size_t kLengthBytes = 8, kChecksumBytes = 4;
constexpr size_t kHeaderBytes = kLengthBytes + kChecksumBytes;
constexpr size_t kWindowBytes = 4096;

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

bool IsGoodLength(const char* header) {
  return Masked(Crc32c(header, kLengthBytes)) == Load<uint32_t>(header + kLengthBytes);
}

// Buffers small reads at increasing positions of a file.
class Window {
 public:
  explicit Window(const ReadableFile& file) : file_(file), bytes_(kWindowBytes, 0) {}

  // `size` bytes at `offset`, fewer at the end of the file.
  absl::StatusOr<absl::string_view> At(uint64_t offset, size_t size) {
    if (offset < begin_ || offset + size > begin_ + filled_) {
      begin_ = offset;
      ASSIGN_OR_RETURN(filled_, file_.Read(offset, absl::MakeSpan(&bytes_[0], bytes_.size())));
    }
    return absl::string_view(bytes_).substr(0, filled_).substr(offset - begin_, size);
  }

 private:
  const ReadableFile& file_;
  std::string bytes_;
  uint64_t begin_ = 0;
  size_t filled_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TfRecordFile>> TfRecordFile::Open(FileSystem& files,
                                                                 const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForRead(path));
  auto records = absl::WrapUnique(new TfRecordFile(path, std::move(file)));
  RETURN_IF_ERROR(records->BuildIndex());
  return records;
}

absl::Status TfRecordFile::Damaged(absl::string_view what, int64_t index) const {
  return absl::DataLossError(
      absl::StrCat(path_, ": ", what, " record ", index, "; fetch the file again"));
}

absl::Status TfRecordFile::BuildIndex() {
  ASSIGN_OR_RETURN(const uint64_t end, file_->Size());
  Window window(*file_);
  for (uint64_t at = 0; at < end;) {
    const int64_t index = static_cast<int64_t>(offsets_.size());
    ASSIGN_OR_RETURN(const absl::string_view header, window.At(at, kHeaderBytes));
    if (index == 0 && absl::StartsWith(header, "\x1f\x8b")) {
      return absl::DataLossError(
          absl::StrCat(path_, ": compressed files are not read; unpack it with gunzip"));
    }
    if (header.size() < kHeaderBytes) return Damaged("truncated in the length of", index);
    if (!IsGoodLength(header.data())) return Damaged("damaged in the length of", index);
    const uint64_t length = Load<uint64_t>(header.data());
    if (length > end - at || end - at - length < kHeaderBytes + kChecksumBytes) {
      return Damaged("truncated in", index);
    }
    ASSIGN_OR_RETURN(const absl::string_view checksum,
                     window.At(at + kHeaderBytes + length, kChecksumBytes));
    if (checksum.size() < kChecksumBytes) return Damaged("truncated in", index);
    fingerprint_ = CombineFingerprints(fingerprint_ ^ length, Load<uint32_t>(checksum.data()));
    offsets_.push_back(at);
    at += kHeaderBytes + length + kChecksumBytes;
  }
  offsets_.push_back(end);
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> TfRecordFile::Read(int64_t index, std::string* buffer) const {
  const uint64_t begin = offsets_[static_cast<size_t>(index)];
  buffer->resize(offsets_[static_cast<size_t>(index) + 1] - begin);
  ASSIGN_OR_RETURN(const size_t read,
                   file_->Read(begin, absl::MakeSpan(&(*buffer)[0], buffer->size())));
  if (read < buffer->size()) return Damaged("truncated since it was opened, in", index);
  const absl::string_view record = absl::string_view(*buffer).substr(
      kHeaderBytes, buffer->size() - kHeaderBytes - kChecksumBytes);
  const uint32_t checksum = Load<uint32_t>(record.data() + record.size());
  if (!IsGoodLength(buffer->data()) || Masked(Crc32c(record)) != checksum) {
    return Damaged("damaged in", index);
  }
  return record;
}

std::string FrameTfRecord(absl::string_view record) {
  std::string bytes;
  Append<uint64_t>(record.size(), &bytes);
  Append<uint32_t>(Masked(Crc32c(bytes)), &bytes);
  bytes.append(record.data(), record.size());
  Append<uint32_t>(Masked(Crc32c(record)), &bytes);
  return bytes;
}

}  // namespace shoal
