#include "base/faulty_file_system.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

std::vector<std::string> SplitPath(const std::string& path) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (name != ".") names.emplace_back(name);
  }
  return names;
}

}  // namespace

class FaultyFileSystem::OpenFile : public WritableFile, public ReadableFile {
 public:
  OpenFile(FaultyFileSystem* disk, std::shared_ptr<Node> file, int life)
      : disk_(*disk), file_(std::move(file)), life_(life) {}

  absl::Status Append(absl::string_view bytes) override {
    return disk_.Write(file_.get(), life_, std::nullopt, bytes);
  }
  absl::Status WriteAt(uint64_t offset, absl::string_view bytes) override {
    return disk_.Write(file_.get(), life_, offset, bytes);
  }
  absl::Status Sync() override { return disk_.SyncFile(file_.get(), life_); }
  absl::Status Close() override { return absl::OkStatus(); }

  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<char> out) const override {
    MutexLock lock(&disk_.mutex_);
    RETURN_IF_ERROR(disk_.faults_.OnRead());
    if (offset >= file_->bytes.size()) return 0;
    const size_t size = std::min<size_t>(out.size(), file_->bytes.size() - offset);
    std::memcpy(out.data(), file_->bytes.data() + offset, size);
    return size;
  }

  absl::StatusOr<uint64_t> Size() const override {
    MutexLock lock(&disk_.mutex_);
    RETURN_IF_ERROR(disk_.faults_.OnRead());
    return file_->bytes.size();
  }

 private:
  FaultyFileSystem& disk_;
  const std::shared_ptr<Node> file_;
  const int life_;
};

FaultyFileSystem::FaultyFileSystem() : root_(std::make_shared<Node>()) {
  root_->is_directory = true;
}

FaultyFileSystem::FaultyFileSystem(const DiskImage& image) : FaultyFileSystem() {
  MutexLock lock(&mutex_);
  std::map<uint64_t, std::shared_ptr<Node>> nodes = {{0, root_}};
  for (const auto& [number, from] : image.nodes) {
    std::shared_ptr<Node>& node = nodes[number];
    if (node == nullptr) node = std::make_shared<Node>();
    node->number = number;
    node->is_directory = from.is_directory;
    node->bytes = node->synced_bytes = from.bytes;
    num_nodes_ = std::max(num_nodes_, number + 1);
  }
  for (const auto& [number, from] : image.nodes) {
    Node& node = *nodes[number];
    for (const auto& [name, entered] : from.entries) node.entries[name] = nodes[entered];
    node.synced_entries = node.entries;
  }
}

FaultyFileSystem::~FaultyFileSystem() = default;

void FaultyFileSystem::StartJournal() {
  MutexLock lock(&mutex_);
  CHECK(root_->entries.empty());
  journal_ = std::make_unique<DiskJournal>();
}

std::shared_ptr<FaultyFileSystem::Node> FaultyFileSystem::NewNode(bool is_directory) {
  auto node = std::make_shared<Node>();
  node->number = num_nodes_++;
  node->is_directory = is_directory;
  return node;
}

void FaultyFileSystem::Note(DiskJournal::Change change) {
  if (journal_ != nullptr) journal_->Add(std::move(change));
}

void FaultyFileSystem::NoteEntry(const Node& directory, const std::string& name, const Node& node) {
  Note({DiskJournal::kEnter, directory.number, 0, name, "", node.number, node.is_directory});
}

void FaultyFileSystem::SetCapacity(uint64_t bytes) {
  MutexLock lock(&mutex_);
  capacity_ = bytes;
}

void FaultyFileSystem::Hold() {
  MutexLock lock(&mutex_);
  held_ = true;
}

void FaultyFileSystem::Release() {
  MutexLock lock(&mutex_);
  held_ = false;
  released_.NotifyAll();
}

void FaultyFileSystem::Crash() {
  faults_.StopFailing();
  MutexLock lock(&mutex_);
  ++life_;
  std::set<Node*> seen;
  std::vector<Node*> left = {root_.get()};
  while (!left.empty()) {
    Node* node = left.back();
    left.pop_back();
    if (!seen.insert(node).second) continue;
    node->bytes = node->synced_bytes;
    node->entries = node->synced_entries;
    for (const auto& [name, child] : node->entries) left.push_back(child.get());
  }
}

absl::Status FaultyFileSystem::BeginChange() {
  while (held_) released_.Wait(&mutex_);
  return faults_.OnChange();
}

absl::StatusOr<std::shared_ptr<FaultyFileSystem::Node>> FaultyFileSystem::Find(
    const std::string& path) const {
  std::shared_ptr<Node> node = root_;
  for (const std::string& name : SplitPath(path)) {
    const auto it = node->entries.find(name);
    if (it == node->entries.end()) return absl::NotFoundError(absl::StrCat("no such file: ", path));
    node = it->second;
  }
  return node;
}

absl::StatusOr<std::shared_ptr<FaultyFileSystem::Node>> FaultyFileSystem::FindFile(
    const std::string& path) const {
  ASSIGN_OR_RETURN(std::shared_ptr<Node> node, Find(path));
  if (node->is_directory) return absl::FailedPreconditionError(path + " is a directory");
  return node;
}

absl::StatusOr<FaultyFileSystem::Place> FaultyFileSystem::FindPlace(const std::string& path) const {
  const std::vector<std::string> names = SplitPath(path);
  if (names.empty()) return absl::InvalidArgumentError("the root has no name");
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> directory, Find(ParentDirectory(path)));
  if (!directory->is_directory) {
    return absl::FailedPreconditionError(ParentDirectory(path) + " is not a directory");
  }
  return Place{directory.get(), names.back()};
}

absl::StatusOr<std::shared_ptr<FaultyFileSystem::Node>> FaultyFileSystem::FindOrCreateFile(
    const std::string& path) {
  ASSIGN_OR_RETURN(const Place place, FindPlace(path));
  std::shared_ptr<Node>& node = place.directory->entries[place.name];
  if (node == nullptr) {
    node = NewNode(/*is_directory=*/false);
    NoteEntry(*place.directory, place.name, *node);
  }
  return FindFile(path);
}

uint64_t FaultyFileSystem::BytesUsed() const {
  uint64_t used = 0;
  std::vector<const Node*> left = {root_.get()};
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    used += node->bytes.size();
    for (const auto& [name, child] : node->entries) left.push_back(child.get());
  }
  return used;
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Create(const std::string& path) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(std::shared_ptr<Node> file, FindOrCreateFile(path));
  if (!file->bytes.empty()) Note({DiskJournal::kTruncate, file->number});
  file->bytes.clear();
  return std::make_unique<OpenFile>(this, std::move(file), life_);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::OpenForAppend(
    const std::string& path) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(std::shared_ptr<Node> file, FindOrCreateFile(path));
  return std::make_unique<OpenFile>(this, std::move(file), life_);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::OpenForUpdate(
    const std::string& path) {
  return OpenForAppend(path);  // Every write says where to write.
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFileSystem::OpenForRead(
    const std::string& path) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(faults_.OnRead());
  ASSIGN_OR_RETURN(std::shared_ptr<Node> file, FindFile(path));
  return std::make_unique<OpenFile>(this, std::move(file), life_);
}

absl::Status FaultyFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, Find(from));
  ASSIGN_OR_RETURN(const Place source, FindPlace(from));
  ASSIGN_OR_RETURN(const Place target, FindPlace(to));
  const auto it = target.directory->entries.find(target.name);
  if (it != target.directory->entries.end() && !it->second->entries.empty()) {
    return absl::AlreadyExistsError(to + " is a directory with files in it");
  }
  target.directory->entries[target.name] = node;
  if (SplitPath(from) == SplitPath(to)) return absl::OkStatus();
  source.directory->entries.erase(source.name);
  if (source.directory == target.directory) {
    Note({DiskJournal::kRename, target.directory->number, 0, target.name, source.name,
          node->number});
  } else {
    NoteEntry(*target.directory, target.name, *node);
    Note({DiskJournal::kErase, source.directory->number, 0, source.name});
  }
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::LinkNoOverwrite(const std::string& from, const std::string& to) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> file, FindFile(from));
  ASSIGN_OR_RETURN(const Place target, FindPlace(to));
  if (!target.directory->entries.emplace(target.name, file).second) {
    return absl::AlreadyExistsError(absl::StrCat("cannot link ", from, " to ", to));
  }
  NoteEntry(*target.directory, target.name, *file);
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Remove(const std::string& path) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, Find(path));
  if (!node->entries.empty()) return absl::FailedPreconditionError(path + " is not empty");
  ASSIGN_OR_RETURN(const Place place, FindPlace(path));
  place.directory->entries.erase(place.name);
  Note({DiskJournal::kErase, place.directory->number, 0, place.name});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Truncate(const std::string& path, uint64_t size) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> file, FindFile(path));
  file->bytes.resize(size);
  Note({DiskJournal::kTruncate, file->number, size});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::MakeDirectory(const std::string& path) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  Node* directory = root_.get();
  for (const std::string& name : SplitPath(path)) {
    std::shared_ptr<Node>& child = directory->entries[name];
    if (child == nullptr) {
      child = NewNode(/*is_directory=*/true);
      NoteEntry(*directory, name, *child);
    }
    if (!child->is_directory) {
      return absl::AlreadyExistsError(absl::StrCat(name, " is a file, in ", path));
    }
    directory = child.get();
  }
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::SyncDirectory(const std::string& path) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(BeginChange());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> directory, Find(path));
  if (!directory->is_directory) return absl::FailedPreconditionError(path + " is not a directory");
  directory->synced_entries = directory->entries;
  Note({DiskJournal::kSyncDirectory, directory->number});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(const std::string& path) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(faults_.OnRead());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> directory, Find(path));
  if (!directory->is_directory) return absl::FailedPreconditionError(path + " is not a directory");
  std::vector<std::string> names;
  for (const auto& [name, child] : directory->entries) names.push_back(name);
  return names;
}

absl::StatusOr<FileInfo> FaultyFileSystem::GetInfo(const std::string& path) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(faults_.OnRead());
  ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, Find(path));
  return FileInfo{node->is_directory, node->bytes.size()};
}

absl::StatusOr<uint64_t> FaultyFileSystem::SpaceLeft(const std::string& path) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Find(path).status());
  const uint64_t used = BytesUsed();
  return used < capacity_ ? capacity_ - used : 0;
}

absl::Status FaultyFileSystem::Write(Node* file, int life, std::optional<uint64_t> offset,
                                     absl::string_view bytes) {
  MutexLock lock(&mutex_);
  if (life != life_) return absl::UnavailableError("opened before the crash");
  RETURN_IF_ERROR(BeginChange());
  const uint64_t used = BytesUsed();
  const uint64_t left = used < capacity_ ? capacity_ - used : 0;
  const uint64_t begin = offset.value_or(file->bytes.size());
  const uint64_t room = std::max(file->bytes.size() + left, begin);
  const uint64_t fits = std::min<uint64_t>(bytes.size(), room - begin);
  if (fits > 0 && file->bytes.size() < begin + fits) file->bytes.resize(begin + fits);
  if (fits > 0) {
    file->bytes.replace(begin, fits, bytes.data(), fits);
    Note({DiskJournal::kWrite, file->number, begin, std::string(bytes.substr(0, fits))});
  }
  return bytes.size() <= fits ? absl::OkStatus() : absl::ResourceExhaustedError("the disk is full");
}

absl::Status FaultyFileSystem::SyncFile(Node* file, int life) {
  MutexLock lock(&mutex_);
  if (life != life_) return absl::UnavailableError("opened before the crash");
  RETURN_IF_ERROR(BeginChange());
  file->synced_bytes = file->bytes;
  Note({DiskJournal::kSyncFile, file->number});
  return absl::OkStatus();
}

}  // namespace shoal
