#include "ps/rows_base.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"

#include "runtime/checkpoint/manifest.h"

namespace shoal {
namespace {

// A restore reads every shard that the newest one continues at the same time.
constexpr size_t kMostChanges = 8;

}  // namespace

RowsBase::Plan RowsBase::PlanFor(const FileSystem& file_system, const SnapshotLineage& lineage,
                                 const Snapshot& snapshot) {
  const LineageKey key = {lineage.term, lineage.lineage};
  const std::tuple<LineageKey, uint64_t> planned = {key, snapshot.version};
  const bool is_second_attempt = planned_ == planned;
  planned_ = planned;
  Plan plan;
  if (!is_second_attempt) {
    if (lineage_ != key) {
      published_.clear();
      written_.clear();
      lineage_ = key;
    }
    Advance(file_system, lineage.root);
    continued_.clear();
    if (MayContinue(file_system, lineage, snapshot)) continued_ = published_;
  }
  if (!continued_.empty() && CountChanges(snapshot, &plan)) {
    for (const Link& link : continued_) plan.bases.push_back(link.shard);
    return plan;
  }
  continued_.clear();
  return Plan();
}

void RowsBase::Advance(const FileSystem& file_system, const std::string& root) {
  if (written_.empty()) return;
  const std::string directory = JoinPath(root, written_.back().shard.checkpoint);
  if (FileExists(file_system, JoinPath(directory, kManifestFile))) published_ = written_;
}

bool RowsBase::MayContinue(const FileSystem& file_system, const SnapshotLineage& lineage,
                           const Snapshot& snapshot) const {
  if (published_.empty() ||
      published_.size() > std::min<size_t>(lineage.kept_checkpoints, kMostChanges)) {
    return false;
  }
  // A shard that continues a base without keys would only depend on it.
  if (published_.front().num_keys == 0) return false;
  const std::map<uint32_t, uint64_t>& versions = published_.back().versions;
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    if (part.rows != nullptr && versions.count(part.slice) == 0) return false;
  }
  return std::all_of(published_.begin(), published_.end(), [&](const Link& link) {
    const std::string directory = JoinPath(lineage.root, link.shard.checkpoint);
    const absl::StatusOr<FileInfo> file =
        file_system.GetInfo(JoinPath(directory, link.shard.file.name()));
    return file.ok() && file->size == link.shard.file.bytes();
  });
}

bool RowsBase::CountChanges(const Snapshot& snapshot, Plan* plan) const {
  uint64_t num_changes = 0;
  for (size_t i = 1; i < continued_.size(); ++i) num_changes += continued_[i].num_keys;
  const std::map<uint32_t, uint64_t>& versions = continued_.back().versions;
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    if (part.rows == nullptr) continue;
    Changes changes;
    changes.since = versions.at(part.slice);
    changes.size = part.rows->GetSize(changes.since);
    num_changes += changes.size.rows + changes.size.counted;
    if (2 * num_changes > continued_.front().num_keys) return false;
    plan->changes.emplace(part.slice, changes);
  }
  return true;
}

void RowsBase::Add(const SnapshotLineage& lineage, const Snapshot& snapshot, uint64_t num_keys,
                   const v1::ShardFile& file) {
  Link link;
  link.shard = {lineage.GetDirectory(snapshot.version), file};
  link.num_keys = num_keys;
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    if (part.rows != nullptr) link.versions[part.slice] = part.version;
  }
  // Checkpoints need not name the shards before a new base any more.
  if (continued_.empty()) published_.clear();
  written_ = continued_;
  written_.push_back(std::move(link));
}

}  // namespace shoal
