#include "base/disk_journal.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace shoal {
namespace {

using Change = DiskJournal::Change;

constexpr uint64_t kBlockBytes = 512;

// Bytes [begin, end) of the write.
void ApplyBytes(const Change& change, uint64_t begin, uint64_t end, DiskImage::Node* node) {
  if (begin >= end) return;
  if (node->bytes.size() < change.where + end) node->bytes.resize(change.where + end);
  node->bytes.replace(change.where + begin, end - begin, change.bytes, begin, end - begin);
}

void Apply(const Change& change, DiskImage* image) {
  DiskImage::Node* node = &image->nodes[change.node];
  switch (change.kind) {
    case DiskJournal::kWrite:
      return ApplyBytes(change, 0, change.bytes.size(), node);
    case DiskJournal::kTruncate:
      return node->bytes.resize(change.where);
    case DiskJournal::kRename:
      node->entries.erase(change.from);
      node->entries[change.bytes] = change.entered;
      return;
    case DiskJournal::kEnter:
      node->entries[change.bytes] = change.entered;
      return;
    case DiskJournal::kErase:
      node->entries.erase(change.bytes);
      return;
    case DiskJournal::kSyncFile:
    case DiskJournal::kSyncDirectory:
      return;
  }
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  uint64_t Below(uint64_t bound) { return RandomBelow(seed_, draws_++, bound); }

 private:
  const uint64_t seed_;
  uint64_t draws_ = 0;
};

// A part of one change that was under way.
void ApplyTorn(const Change& change, Dice* dice, DiskImage* image) {
  if (change.kind != DiskJournal::kWrite) return;  // Others are there or not.
  ApplyBytes(change, 0, dice->Below(change.bytes.size() + 1), &image->nodes[change.node]);
}

void ApplyAnyBlocks(const Change& change, Dice* dice, DiskImage* image) {
  if (change.kind != DiskJournal::kWrite) {
    if (dice->Below(2) == 0) Apply(change, image);
    return;
  }
  for (uint64_t begin = 0; begin < change.bytes.size(); begin += kBlockBytes) {
    const uint64_t end = std::min<uint64_t>(begin + kBlockBytes, change.bytes.size());
    if (dice->Below(2) == 0) ApplyBytes(change, begin, end, &image->nodes[change.node]);
  }
}

}  // namespace

DiskImage DiskJournal::After(size_t num_changes, PowerCut cut, uint64_t seed) const {
  DiskImage image;
  image.nodes[0].is_directory = true;
  std::map<uint64_t, std::vector<const Change*>> unsynced;  // By node, in order.
  for (size_t i = 0; i < num_changes; ++i) {
    const Change& change = changes_[i];
    if (change.kind == DiskJournal::kSyncFile || change.kind == DiskJournal::kSyncDirectory) {
      for (const Change* done : unsynced[change.node]) Apply(*done, &image);
      unsynced.erase(change.node);
      continue;
    }
    unsynced[change.node].push_back(&change);
    if (change.kind == DiskJournal::kEnter) {
      image.nodes[change.entered].is_directory = change.is_directory;
    }
  }
  Dice dice(seed);
  for (const auto& [node, changes] : unsynced) {
    const size_t last = cut == PowerCut::kTearsLast ? dice.Below(changes.size()) : changes.size();
    for (size_t i = 0; i < changes.size() && i <= last; ++i) {
      if (cut == PowerCut::kLosesAll) continue;
      if (cut == PowerCut::kReordersAll) {
        ApplyAnyBlocks(*changes[i], &dice, &image);
      } else if (i == last) {
        ApplyTorn(*changes[i], &dice, &image);
      } else {
        Apply(*changes[i], &image);
      }
    }
  }
  return image;
}

}  // namespace shoal
