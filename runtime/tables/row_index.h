#ifndef SHOAL_RUNTIME_TABLES_ROW_INDEX_H_
#define SHOAL_RUNTIME_TABLES_ROW_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace shoal {

// The row number of a key that has none.
inline constexpr uint32_t kNoRow = UINT32_MAX;

// Maps 64-bit keys to row numbers: open addressing with linear probing over entries of 16 bytes, at
// most 85 % full. Each key also has a stamp, a number that the owner chooses.
//
// The index grows by moving a few entries with every insertion, so no insertion takes long: it may
// map new memory, which the kernel clears page by page when it is first used, but it never moves
// all entries at once. Not thread-safe.
class RowIndex {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t row_plus_one = 0;  // 0: the key has no row
    uint32_t stamp = 0;         // 0 only in an entry that is not used

    bool has_row() const { return row_plus_one != 0; }
    uint32_t row() const { return row_plus_one - 1; }  // kNoRow without a row
  };

  RowIndex();
  ~RowIndex();
  RowIndex(RowIndex&&) noexcept;
  RowIndex& operator=(RowIndex&&) noexcept;

  // The number of keys, with or without a row.
  size_t size() const { return size_; }
  // The bytes of memory that are mapped for entries.
  uint64_t bytes() const;

  // Returns the key's entry, or null. It stays valid until the next Insert or Erase.
  const Entry* Find(uint64_t key) const;
  Entry* Find(uint64_t key) {
    return const_cast<Entry*>(static_cast<const RowIndex*>(this)->Find(key));
  }
  // Sets entries[i] to the entry of keys[i], or null. It reads several keys at once, so that the
  // waits for memory overlap.
  void Find(absl::Span<const uint64_t> keys, const Entry** entries) const;

  // Adds a key that the index does not hold, with a stamp above 0. Returns its entry.
  Entry* Insert(uint64_t key, uint32_t row, uint32_t stamp);
  // Removes a key that the index holds.
  void Erase(uint64_t key);
  // Removes all keys and keeps the memory, for an index that is filled anew each step.
  void Clear();

  // Calls visit(entry) for every key, in no particular order. `visit` must not change the index.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Part* part : {&new_, &old_}) {
      for (size_t i = 0; i < part->capacity; ++i) {
        if (IsUsed(part->entries[i])) visit(part->entries[i]);
      }
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
  static size_t FindHome(uint64_t key, size_t capacity);
  static const Entry* FindIn(const Part& part, uint64_t key);
  static Entry* InsertInto(Part* part, const Entry& entry);
  void MoveSome();
  void Grow();

  Part new_;
  Part old_;  // entries [moved_, capacity) still have to move to new_
  size_t moved_ = 0;
  size_t left_ = 0;  // the keys that old_ still holds
  size_t size_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_ROW_INDEX_H_
