#include "ps/rows_base.h"

#include "absl/status/statusor.h"

#include "runtime/checkpoint/bucket_delta.h"
#include "runtime/checkpoint/manifest.h"

namespace shoal {

bool RowsBase::Serves(const FileSystem& file_system, const SnapshotLineage& lineage,
                      const Snapshot& snapshot) {
  const std::tuple<LineageKey, uint64_t> asked = {{lineage.term, lineage.lineage},
                                                  snapshot.version};
  if (asked_ == asked) return answer_;
  asked_ = asked;
  answer_ = ServesNow(file_system, lineage, snapshot);
  return answer_;
}

bool RowsBase::ServesNow(const FileSystem& file_system, const SnapshotLineage& lineage,
                         const Snapshot& snapshot) {
  if (versions_.empty() || lineage_ != LineageKey{lineage.term, lineage.lineage}) return false;
  uint64_t changes = 0;
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    if (part.rows == nullptr) continue;
    const auto version = versions_.find(part.slice);
    if (version == versions_.end()) return false;
    changes += CountChanges(*part.rows, version->second);
  }
  return 2 * changes <= num_rows_ && IsThere(file_system, lineage.root);
}

bool RowsBase::IsThere(const FileSystem& file_system, const std::string& root) {
  const std::string directory = JoinPath(root, shard_.checkpoint);
  is_published_ = is_published_ || FileExists(file_system, JoinPath(directory, kManifestFile));
  if (!is_published_) return false;
  const absl::StatusOr<FileInfo> file =
      file_system.GetInfo(JoinPath(directory, shard_.file.name()));
  return file.ok() && file->size == shard_.file.bytes();
}

void RowsBase::Set(const SnapshotLineage& lineage, const Snapshot& snapshot,
                   const v1::ShardFile& file) {
  lineage_ = {lineage.term, lineage.lineage};
  shard_ = {lineage.DirectoryOf(snapshot.version), file};
  is_published_ = false;
  num_rows_ = 0;
  versions_.clear();
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    if (part.rows == nullptr) continue;
    versions_[part.slice] = part.version;
    num_rows_ += part.rows->keys.size();
  }
}

}  // namespace shoal
