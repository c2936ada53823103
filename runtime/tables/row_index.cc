#include "runtime/tables/row_index.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"

#include "base/hash.h"
#include "base/log.h"
#include "runtime/tables/mapped_memory.h"

namespace shoal {
namespace {

// A table may have hundreds of buckets with a few rows each.
constexpr size_t kFirstCapacity = 32;
// Arrays that have more entries, and need more than a page, are mapped: growing ones of hundreds of
// buckets would leave holes in the heap.
constexpr size_t kMostOfHeap = 256;
constexpr size_t kMovedPerInsertion = 16;
constexpr size_t kLineBytes = 64;
constexpr size_t kGroupEntries = kLineBytes / sizeof(RowIndex::Entry);
// The entries of a huge page of old memory, which the system gets back at once.
constexpr size_t kPiece = kHugePageBytes / sizeof(RowIndex::Entry);
// Marks an entry whose key was erased: probes continue behind it.
constexpr uint32_t kErased = UINT32_MAX;

bool IsFree(const RowIndex::Entry& entry) { return (entry.stamp == 0) & (entry.number != kErased); }

size_t MostFilled(size_t capacity) { return capacity - capacity * 3 / 20; }

}  // namespace

RowIndex::~RowIndex() {
  FreePart(&new_);
  FreePart(&old_);
}

RowIndex::RowIndex(RowIndex&& other) noexcept { *this = std::move(other); }

RowIndex& RowIndex::operator=(RowIndex&& other) noexcept {
  std::swap(new_, other.new_);
  std::swap(old_, other.old_);
  std::swap(moved_, other.moved_);
  std::swap(left_, other.left_);
  std::swap(size_, other.size_);
  return *this;
}

RowIndex::Part RowIndex::NewPart(size_t capacity) {
  if (capacity > kMostOfHeap) {
    return Part{static_cast<Entry*>(MapMemory(capacity * sizeof(Entry), "an index of a table")),
                capacity, 0};
  }
  void* const memory = std::aligned_alloc(kLineBytes, capacity * sizeof(Entry));
  CHECK(memory != nullptr) << "the system has no more memory for an index of a table";
  std::memset(memory, 0, capacity * sizeof(Entry));
  return Part{static_cast<Entry*>(memory), capacity, 0};
}

void RowIndex::FreePart(Part* part) {
  if (part->capacity > kMostOfHeap) {
    munmap(part->entries, part->capacity * sizeof(Entry));
  } else {
    std::free(part->entries);
  }
  *part = Part();
}

uint64_t RowIndex::bytes() const { return (new_.capacity + old_.capacity) * sizeof(Entry); }

// The bits differ from those that choose a key's bucket, whose keys would share their homes.
size_t RowIndex::FindHome(uint64_t key, size_t capacity) {
  const uint64_t mixed = MixBits(key ^ 0x9e3779b97f4a7c15u);
  const size_t groups = capacity / kGroupEntries;
  return static_cast<size_t>((static_cast<unsigned __int128>(mixed) * groups) >> 64) *
         kGroupEntries;
}

// Compares all keys of a group before it branches, because a processor cannot foresee the place of
// a key.
const RowIndex::Entry* RowIndex::FindIn(const Part& part, size_t first, uint64_t key) {
  if (part.capacity == 0) return nullptr;
  for (size_t i = std::max(first / kGroupEntries * kGroupEntries, FindHome(key, part.capacity));;) {
    const Entry* const group = part.entries + i;
    unsigned found = 0;
#pragma GCC unroll 4
    for (size_t e = 0; e < kGroupEntries; ++e) {
      found |= static_cast<unsigned>((group[e].key == key) & IsUsed(group[e])) << e;
    }
    if (ABSL_PREDICT_TRUE(found != 0)) return group + __builtin_ctz(found);
#pragma GCC unroll 4
    for (size_t e = 0; e < kGroupEntries; ++e) {
      if (IsFree(group[e])) return nullptr;
    }
    i += kGroupEntries;
    if (i == part.capacity) i = 0;
  }
}

const RowIndex::Entry* RowIndex::Find(uint64_t key) const {
  const Entry* const found = FindIn(new_, 0, key);
  return found != nullptr || ABSL_PREDICT_TRUE(old_.capacity == 0) ? found
                                                                   : FindIn(old_, moved_, key);
}

void RowIndex::Find(absl::Span<const uint64_t> keys, const Entry** entries) const {
  for (size_t i = 0; i < keys.size(); ++i) entries[i] = Find(keys[i]);
}

// Takes a free entry before an erased one, so that an index that has lost most of its keys fills up
// with erased entries and moves to a smaller one.
RowIndex::Entry* RowIndex::InsertInto(Part* part, const Entry& added) {
  for (size_t i = FindHome(added.key, part->capacity);;) {
    Entry* const group = part->entries + i;
    unsigned free = 0, unused = 0;
#pragma GCC unroll 4
    for (size_t e = 0; e < kGroupEntries; ++e) {
      free |= static_cast<unsigned>(IsFree(group[e])) << e;
      unused |= static_cast<unsigned>(!IsUsed(group[e])) << e;
    }
    if (ABSL_PREDICT_TRUE(unused != 0)) {
      if (free != 0) ++part->filled;
      Entry* const entry = group + __builtin_ctz(free != 0 ? free : unused);
      *entry = added;
      return entry;
    }
    i += kGroupEntries;
    if (i == part->capacity) i = 0;
  }
}

RowIndex::Entry* RowIndex::Insert(uint64_t key, uint32_t number, uint32_t stamp) {
  DCHECK(stamp > 0);
  ContinueGrowth(kMovedPerInsertion);
  if (new_.filled + left_ >= MostFilled(new_.capacity)) Grow();
  ++size_;
  Entry added;
  added.key = key;
  added.number = number;
  added.stamp = stamp;
  return InsertInto(&new_, added);
}

void RowIndex::Erase(uint64_t key) {
  Entry* const entry = Find(key);
  if (entry >= old_.entries && entry < old_.entries + old_.capacity) --left_;
  entry->stamp = 0;
  entry->number = kErased;
  --size_;
}

void RowIndex::Clear() {
  if (new_.filled == 0 && old_.capacity == 0) return;
  FreePart(&old_);
  moved_ = 0;
  left_ = 0;
  size_ = 0;
  new_.filled = 0;
  std::memset(static_cast<void*>(new_.entries), 0, new_.capacity * sizeof(Entry));
}

void RowIndex::MoveEntries(size_t num_entries) {
  const size_t begin = moved_;
  const size_t end = begin + std::min(num_entries, old_.capacity - begin);
  for (; moved_ < end; ++moved_) {
    Entry& entry = old_.entries[moved_];
    if (!IsUsed(entry)) continue;
    InsertInto(&new_, entry);
    --left_;
    entry.stamp = 0;
    entry.number = kErased;
  }
  if (moved_ == old_.capacity) {
    FreePart(&old_);
    moved_ = 0;
  } else if (const size_t pieces = moved_ / kPiece - begin / kPiece; pieces > 0) {
    // The kernel needs many milliseconds to unmap a large part at once.
    madvise(old_.entries + begin / kPiece * kPiece, pieces * kPiece * sizeof(Entry), MADV_DONTNEED);
  }
}

// Erased entries count as filled until then, so an index whose keys come and go does not grow.
void RowIndex::Grow() {
  CHECK_EQ(old_.capacity, 0u);
  old_ = std::exchange(new_, Part());
  moved_ = 0;
  left_ = size_;
  // The new part must not be full before the old one is empty, although only a few of the old
  // part's entries may be in use.
  const size_t added_meanwhile = old_.capacity / kMovedPerInsertion + 1;
  const size_t least = (size_ + added_meanwhile + 1) * 20 / 17 + 1;
  const size_t capacity = std::max({kFirstCapacity, size_ + size_ / 2 + size_ / 4, least});
  new_ = NewPart((capacity + kGroupEntries - 1) / kGroupEntries * kGroupEntries);
}

}  // namespace shoal
