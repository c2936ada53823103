#ifndef SHOAL_RUNTIME_TABLES_ROW_INDEX_H_
#define SHOAL_RUNTIME_TABLES_ROW_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/optimization.h"
#include "absl/types/span.h"

namespace shoal {

// Maps 64-bit keys to row numbers, or to counts for keys that have no row yet: open addressing over
// entries of 16 bytes, at most 85 % full. Four entries are a group, which fills a cache line. A key
// is in the group that its hash names or, if that was full, in one of the following groups. So most
// look-ups read one line. Each key also has a stamp, a number that the owner chooses.
//
// The index grows by moving a few entries with every insertion, so no insertion takes long: it may
// map new memory, which the kernel clears page by page when it is first used, but it never moves
// all entries at once, and it returns the old memory in pieces of 2 MiB. ContinueGrowth moves as
// many entries as its caller asks for. Not thread-safe.
class RowIndex {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t number = 0;  // the row's, below kMostRows; else kMostRows + a count
    uint32_t stamp = 0;   // 0 only in an entry that is not used

    bool has_row() const { return number < kMostRows; }
    uint32_t row() const { return number; }                // only of a key with a row
    uint32_t count() const { return number - kMostRows; }  // only of a key without one
  };
  static constexpr uint32_t kMostRows = uint32_t{1} << 31;
  static constexpr uint32_t kMostCount = kMostRows - 1;
  // The number of a key without a row; `count` is at most kMostCount.
  static constexpr uint32_t NumberOfCount(uint32_t count) { return kMostRows + count; }

  RowIndex() = default;  // takes no memory
  ~RowIndex();
  RowIndex(RowIndex&&) noexcept;
  RowIndex& operator=(RowIndex&&) noexcept;

  // The number of keys, with or without a row.
  size_t size() const { return size_; }
  // The bytes of memory for entries.
  uint64_t bytes() const;

  // Returns the key's entry, or null. It stays valid until the next Insert, Erase or
  // ContinueGrowth.
  const Entry* Find(uint64_t key) const;
  Entry* Find(uint64_t key) {
    return const_cast<Entry*>(static_cast<const RowIndex*>(this)->Find(key));
  }
  // Sets entries[i] to the entry of keys[i], or null. Call Prefetch with some of the keys some time
  // before, so that the waits for memory overlap.
  void Find(absl::Span<const uint64_t> keys, const Entry** entries) const;
  // Asks for the memory that the next Find of these keys reads first.
  void Prefetch(absl::Span<const uint64_t> keys) const {
    for (const uint64_t key : keys) __builtin_prefetch(&new_.entries[FindHome(key, new_.capacity)]);
  }

  // Adds a key that the index does not hold, with the number of its row or NumberOfCount, and a
  // stamp above 0. Returns its entry.
  Entry* Insert(uint64_t key, uint32_t number, uint32_t stamp);
  // Removes a key that the index holds.
  void Erase(uint64_t key);
  // Moves up to this many entries of a growth that has not ended, so that it also ends if no key is
  // added any more. Until then both arrays take memory and a look-up may read both.
  void ContinueGrowth(size_t num_entries) {
    if (ABSL_PREDICT_FALSE(old_.capacity > 0)) MoveEntries(num_entries);
  }
  // Removes all keys and keeps the memory, for an index that is filled anew each step.
  void Clear();

  // Calls visit(entry) for every key, in no particular order. `visit` must not change the index.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t i = 0; i < new_.capacity; ++i) {
      if (IsUsed(new_.entries[i])) visit(new_.entries[i]);
    }
    for (size_t i = moved_; i < old_.capacity; ++i) {
      if (IsUsed(old_.entries[i])) visit(old_.entries[i]);
    }
  }

  // Looks at the next `num_entries` entries from *place on, visits those that are in use, and
  // advances *place, which returns to 0 at the end. Repeated calls visit every key that is not
  // erased meanwhile.
  template <typename Visit>
  void Scan(size_t* place, size_t num_entries, Visit visit) const {
    for (size_t i = 0; i < num_entries && i < new_.capacity; ++i) {
      if (*place >= new_.capacity) *place = 0;
      const Entry& entry = new_.entries[(*place)++];
      if (IsUsed(entry)) visit(entry);
    }
  }

 private:
  // One array of entries, in memory of its own.
  struct Part {
    Entry* entries = nullptr;
    size_t capacity = 0;
    size_t filled = 0;  // used and erased entries
  };

  static bool IsUsed(const Entry& entry) { return entry.stamp != 0; }
  static Part NewPart(size_t capacity);
  static void FreePart(Part* part);
  // Returns the first entry of the group that the key's hash names.
  static size_t FindHome(uint64_t key, size_t capacity);
  // Looks at the groups from that of entry `first` on only.
  static const Entry* FindIn(const Part& part, size_t first, uint64_t key);
  static Entry* InsertInto(Part* part, const Entry& entry);
  void MoveEntries(size_t num_entries);
  void Grow();

  Part new_;
  // Entries [moved_, capacity) still have to move to new_. The memory of those before may be given
  // back; it reads as zeros.
  Part old_;
  size_t moved_ = 0;
  size_t left_ = 0;  // the keys that old_ still holds
  size_t size_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_ROW_INDEX_H_
