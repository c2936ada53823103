#include "tests/simulation/simulated_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace shoal {
namespace {

class SimulatedFileSystem : public FileSystem {
 public:
  SimulatedFileSystem(SimulatedDisks* disks, Fibers* fibers, SimulatedProcess* process)
      : disks_(disks), fibers_(fibers), process_(process) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files().Create(path));
    return Wrap(std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files().OpenForAppend(path));
    return Wrap(std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForUpdate(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files().OpenForUpdate(path));
    return Wrap(std::move(file));
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    RETURN_IF_ERROR(Lives());
    return files().OpenForRead(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    RETURN_IF_ERROR(Change());
    return files().Rename(from, to);
  }
  absl::Status LinkNoOverwrite(const std::string& from, const std::string& to) override {
    RETURN_IF_ERROR(Change());
    return files().LinkNoOverwrite(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return files().Remove(path);
  }
  absl::Status Truncate(const std::string& path, uint64_t size) override {
    RETURN_IF_ERROR(Change());
    return files().Truncate(path, size);
  }
  absl::Status MakeDirectory(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return files().MakeDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    RETURN_IF_ERROR(Change());
    return files().SyncDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override {
    RETURN_IF_ERROR(Lives());
    return files().List(path);
  }
  absl::StatusOr<FileInfo> GetInfo(const std::string& path) const override {
    RETURN_IF_ERROR(Lives());
    return files().GetInfo(path);
  }
  absl::StatusOr<uint64_t> SpaceLeft(const std::string& path) const override {
    RETURN_IF_ERROR(Lives());
    return files().SpaceLeft(path);
  }

 private:
  class File : public WritableFile {
   public:
    File(SimulatedFileSystem* owner, std::unique_ptr<WritableFile> file)
        : owner_(owner), file_(std::move(file)) {}
    absl::Status Append(absl::string_view bytes) override {
      RETURN_IF_ERROR(owner_->Change());
      return file_->Append(bytes);
    }
    absl::Status WriteAt(uint64_t offset, absl::string_view bytes) override {
      RETURN_IF_ERROR(owner_->Change());
      return file_->WriteAt(offset, bytes);
    }
    absl::Status Sync() override {
      RETURN_IF_ERROR(owner_->Change());
      return file_->Sync();
    }
    absl::Status Close() override { return file_->Close(); }

   private:
    SimulatedFileSystem* const owner_;
    const std::unique_ptr<WritableFile> file_;
  };

  std::unique_ptr<WritableFile> Wrap(std::unique_ptr<WritableFile> file) {
    return std::make_unique<File>(this, std::move(file));
  }

  FaultyFileSystem& files() const { return disks_->files; }

  absl::Status Lives() const {
    if (process_->alive) return absl::OkStatus();
    return absl::UnavailableError("the process is dead");
  }

  absl::Status Change() {
    RETURN_IF_ERROR(Lives());
    const auto it = disks_->faults.find(process_->task);
    if (it == disks_->faults.end() || fibers_->now() >= it->second.until) return absl::OkStatus();
    if (it->second.delay > absl::ZeroDuration()) {
      ++disks_->slowed;
      fibers_->Sleep(it->second.delay);
      RETURN_IF_ERROR(Lives());
    }
    if (it->second.error.ok() || ++it->second.changes % it->second.every != 0) {
      return absl::OkStatus();
    }
    ++disks_->failed;
    return it->second.error;
  }

  SimulatedDisks* const disks_;
  Fibers* const fibers_;
  SimulatedProcess* const process_;
};

}  // namespace

std::unique_ptr<FileSystem> NewSimulatedFileSystem(SimulatedDisks* disks, Fibers* fibers,
                                                   SimulatedProcess* process) {
  return std::make_unique<SimulatedFileSystem>(disks, fibers, process);
}

std::string SimulatedDisks::DamageNewestCheckpoint(const std::string& root, SeededRandom* random) {
  const absl::StatusOr<std::unique_ptr<CheckpointDirectory>> directory =
      CheckpointDirectory::Open(files, root);
  if (!directory.ok()) return "";
  const absl::StatusOr<std::vector<CheckpointName>> names = (*directory)->List();
  // The one before must be there to go back to.
  if (!names.ok() || names->size() < 2) return "";
  const std::string path = (*directory)->GetPath(names->front().ToString());
  const absl::StatusOr<std::vector<std::string>> entries = files.List(path);
  std::vector<std::string> damageable;
  for (const std::string& name : entries.ok() ? *entries : std::vector<std::string>()) {
    if (name == "MANIFEST" || absl::StartsWith(name, "shard")) damageable.push_back(name);
  }
  if (damageable.empty()) return "";
  const std::string file = JoinPath(path, damageable[random->Below(damageable.size())]);
  absl::StatusOr<std::string> bytes = ReadFile(files, file);
  if (!bytes.ok() || bytes->empty()) return "";
  (*bytes)[random->Below(bytes->size())] ^= 0x20;
  absl::StatusOr<std::unique_ptr<WritableFile>> written = files.Create(file);
  if (!written.ok() || !(*written)->Append(*bytes).ok() || !(*written)->Sync().ok()) return "";
  return file;
}

}  // namespace shoal
