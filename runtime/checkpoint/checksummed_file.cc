#include "runtime/checkpoint/checksummed_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

// Gives a file a name that none has. A file system without hard links, such as a mounted object
// store, refuses to link; the file is renamed there. That would replace a file which got the name
// after the look, but a name has one writer.
absl::Status GiveName(FileSystem& file_system, const std::string& from, const std::string& to) {
  const absl::Status linked = file_system.LinkNoOverwrite(from, to);
  if (!absl::IsUnimplemented(linked) && !absl::IsPermissionDenied(linked)) return linked;
  const absl::Status look = file_system.GetInfo(to).status();
  if (look.ok()) return absl::AlreadyExistsError(absl::StrCat(to, " exists already"));
  return absl::IsNotFound(look) ? file_system.Rename(from, to) : look;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChecksummedFileWriter>> ChecksummedFileWriter::Create(
    FileSystem& file_system, const std::string& directory, const std::string& name,
    uint64_t expected_bytes) {
  ASSIGN_OR_RETURN(const uint64_t space, file_system.SpaceLeft(directory));
  if (space < expected_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(directory, ": ", name, " needs ",
                                                     expected_bytes, " bytes, ", space,
                                                     " are free; make room"));
  }
  auto writer = absl::WrapUnique(new ChecksummedFileWriter(file_system, JoinPath(directory, name)));
  ASSIGN_OR_RETURN(writer->file_, file_system.Create(writer->temporary_));
  return writer;
}

ChecksummedFileWriter::ChecksummedFileWriter(FileSystem& file_system, const std::string& path)
    : file_system_(file_system), path_(path), temporary_(absl::StrCat(path, ".tmp")) {}

ChecksummedFileWriter::~ChecksummedFileWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  // The caller that abandons the file has a better error.
  file_system_.Remove(temporary_).IgnoreError();
}

absl::Status ChecksummedFileWriter::Append(absl::string_view bytes) {
  if (file_ == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(path_, " was abandoned after an error"));
  checksums_.Append(bytes);
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status ChecksummedFileWriter::Flush() {
  absl::Status status = file_->Append(buffer_);
  buffer_.clear();
  if (status.ok()) return status;
  file_.reset();
  file_system_.Remove(temporary_).IgnoreError();
  return status;
}

absl::StatusOr<BlockChecksums> ChecksummedFileWriter::Finish() {
  if (file_ == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(path_, " was abandoned after an error"));
  RETURN_IF_ERROR(Flush());
  absl::Status status = file_->Sync();
  const absl::Status closed = file_->Close();
  file_.reset();
  if (status.ok()) status = closed;
  if (status.ok()) status = GiveName(file_system_, temporary_, path_);
  if (absl::IsAlreadyExists(status) && HasTheSameContents()) status = absl::OkStatus();
  file_system_.Remove(temporary_).IgnoreError();  // a left-over changes nothing
  if (!status.ok()) return status;
  return checksums_;
}

bool ChecksummedFileWriter::HasTheSameContents() const {
  const absl::StatusOr<std::unique_ptr<ChecksummedFileReader>> file =
      ChecksummedFileReader::Open(file_system_, path_, checksums_);
  return file.ok() && (*file)->VerifyAll().ok();
}

absl::StatusOr<std::unique_ptr<ChecksummedFileReader>> ChecksummedFileReader::Open(
    FileSystem& file_system, const std::string& path, BlockChecksums checksums) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, file_system.OpenForRead(path));
  ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  if (bytes != checksums.file_bytes()) {
    return absl::DataLossError(absl::StrCat(path, " has ", bytes, " bytes, its checksums are of ",
                                            checksums.file_bytes()));
  }
  return absl::WrapUnique(new ChecksummedFileReader(path, std::move(file), std::move(checksums)));
}

ChecksummedFileReader::ChecksummedFileReader(std::string path, std::unique_ptr<ReadableFile> file,
                                             BlockChecksums checksums)
    : path_(std::move(path)), file_(std::move(file)), checksums_(std::move(checksums)) {}

absl::Status ChecksummedFileReader::LoadBlock(uint64_t index) {
  if (index == block_index_) return absl::OkStatus();
  const uint64_t begin = index * checksums_.block_bytes();
  const uint64_t size =
      std::min<uint64_t>(checksums_.block_bytes(), checksums_.file_bytes() - begin);
  block_index_ = UINT64_MAX;
  block_.resize(size);
  ASSIGN_OR_RETURN(const size_t read, file_->Read(begin, absl::MakeSpan(&block_[0], size)));
  if (read != size || Crc32c(block_) != checksums_.block(index)) {
    return absl::DataLossError(absl::StrCat(path_, ": block ", index, " (from byte ", begin,
                                            ") is damaged: its checksum is wrong"));
  }
  block_index_ = index;
  return absl::OkStatus();
}

absl::Status ChecksummedFileReader::Read(uint64_t offset, absl::Span<char> out) {
  if (offset > checksums_.file_bytes() || out.size() > checksums_.file_bytes() - offset) {
    return absl::DataLossError(absl::StrCat(path_, ": bytes [", offset, ", ", offset + out.size(),
                                            ") are past the end of the file"));
  }
  while (!out.empty()) {
    RETURN_IF_ERROR(LoadBlock(offset / checksums_.block_bytes()));
    const size_t from = offset % checksums_.block_bytes();
    const size_t size = std::min(out.size(), block_.size() - from);
    std::memcpy(out.data(), block_.data() + from, size);
    offset += size;
    out.remove_prefix(size);
  }
  return absl::OkStatus();
}

absl::Status ChecksummedFileReader::VerifyAll() {
  for (uint64_t k = 0; k < checksums_.num_blocks(); ++k) RETURN_IF_ERROR(LoadBlock(k));
  return absl::OkStatus();
}

}  // namespace shoal
