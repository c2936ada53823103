#include "base/file_system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace shoal {
namespace {

absl::Status ErrnoStatus(absl::string_view what, absl::string_view path) {
  const int error = errno;
  return StatusOfErrno(error, absl::StrCat(what, " ", path));
}

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus("cannot write", path_);
      bytes.remove_prefix(n);
    }
    return absl::OkStatus();
  }

  absl::Status WriteAt(uint64_t offset, absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus("cannot write", path_);
      bytes.remove_prefix(n);
      offset += n;
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    return fsync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoStatus("cannot sync", path_);
  }

  absl::Status Close() override {
    return close(fd_.Release()) == 0 ? absl::OkStatus() : ErrnoStatus("cannot close", path_);
  }

 private:
  const std::string path_;
  UniqueFd fd_;
};

class PosixReadableFile : public ReadableFile {
 public:
  PosixReadableFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<char> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus("cannot read", path_);
      if (n == 0) break;
      done += n;
    }
    return done;
  }

  absl::StatusOr<uint64_t> Size() const override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return ErrnoStatus("cannot look at", path_);
    return info.st_size;
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
};

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return OpenForWrite(path, O_TRUNC, "cannot create");
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override {
    return OpenForWrite(path, O_APPEND, "cannot open");
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForUpdate(const std::string& path) override {
    return OpenForWrite(path, 0, "cannot open");
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.is_valid()) return ErrnoStatus("cannot open", path);
    return std::make_unique<PosixReadableFile>(path, std::move(fd));
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(absl::StrCat("cannot rename ", from, " to"), to);
  }

  absl::Status LinkNoOverwrite(const std::string& from, const std::string& to) override {
    if (link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(absl::StrCat("cannot link ", from, " to"), to);
  }

  absl::Status Remove(const std::string& path) override {
    return remove(path.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus("cannot remove", path);
  }

  absl::Status Truncate(const std::string& path, uint64_t size) override {
    if (truncate(path.c_str(), static_cast<off_t>(size)) == 0) return absl::OkStatus();
    return ErrnoStatus("cannot truncate", path);
  }

  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    if (errno == ENOENT && ParentDirectory(path) != path) {
      RETURN_IF_ERROR(MakeDirectory(ParentDirectory(path)));
      if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    }
    const absl::Status status = ErrnoStatus("cannot make the directory", path);
    if (errno != EEXIST) return status;
    ASSIGN_OR_RETURN(const FileInfo info, GetInfo(path));
    return info.is_directory ? absl::OkStatus() : status;
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.is_valid() || fsync(fd.get()) != 0) return ErrnoStatus("cannot sync", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
    if (directory == nullptr) return ErrnoStatus("cannot list", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return ErrnoStatus("cannot list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<FileInfo> GetInfo(const std::string& path) const override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return ErrnoStatus("cannot look at", path);
    return FileInfo{S_ISDIR(info.st_mode), static_cast<uint64_t>(info.st_size)};
  }

  absl::StatusOr<uint64_t> SpaceLeft(const std::string& path) const override {
    struct statvfs info;
    if (statvfs(path.c_str(), &info) != 0) return ErrnoStatus("cannot look at the disk of", path);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

 private:
  static absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWrite(const std::string& path,
                                                                    int flags, const char* what) {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644));
    if (!fd.is_valid()) return ErrnoStatus(what, path);
    return std::make_unique<PosixWritableFile>(path, std::move(fd));
  }
};

absl::Status WriteAndSync(FileSystem& file_system, const std::string& path,
                          absl::string_view contents) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, file_system.Create(path));
  RETURN_IF_ERROR(file->Append(contents));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

std::unique_ptr<FileSystem> NewPosixFileSystem() { return std::make_unique<PosixFileSystem>(); }

absl::Status WriteAtomically(FileSystem& file_system, const std::string& path,
                             absl::string_view contents) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  absl::Status status = WriteAndSync(file_system, temporary, contents);
  if (status.ok()) status = file_system.Rename(temporary, path);
  if (!status.ok()) {
    file_system.Remove(temporary).IgnoreError();  // The first error is the one to tell.
    return status;
  }
  return file_system.SyncDirectory(ParentDirectory(path));
}

absl::StatusOr<std::string> ReadFile(FileSystem& file_system, const std::string& path,
                                     uint64_t max_size) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, file_system.OpenForRead(path));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > max_size) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", size, " bytes; at most ", max_size, " are read"));
  }
  std::string contents(size, '\0');
  ASSIGN_OR_RETURN(const size_t read, file->Read(0, absl::MakeSpan(&contents[0], size)));
  contents.resize(read);
  return contents;
}

absl::Status RemoveTree(FileSystem& file_system, const std::string& path) {
  const absl::StatusOr<FileInfo> info = file_system.GetInfo(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  RETURN_IF_ERROR(info.status());
  if (info->is_directory) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system.List(path));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(RemoveTree(file_system, JoinPath(path, name)));
    }
  }
  return file_system.Remove(path);
}

bool FileExists(const FileSystem& file_system, const std::string& path) {
  return file_system.GetInfo(path).ok();
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  if (directory.empty() || absl::StartsWith(name, "/")) return std::string(name);
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/", name);
}

std::string ParentDirectory(absl::string_view path) {
  while (path.size() > 1 && absl::EndsWith(path, "/")) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

}  // namespace shoal
