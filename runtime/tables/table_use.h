#ifndef SHOAL_RUNTIME_TABLES_TABLE_USE_H_
#define SHOAL_RUNTIME_TABLES_TABLE_USE_H_

#include <atomic>
#include <cstdint>

namespace shoal {

// The rows of one table in one process, their memory, and how often they are read.
struct TableUse {
  uint32_t table = 0;  // the index of its variable
  uint64_t rows = 0;
  // The bytes of indexes, rows, sums and undo lists. Memory of removed rows, which new rows reuse,
  // counts too.
  uint64_t bytes = 0;
  // The keys whose rows were read since the process loaded the table, and how many of these keys
  // had a row. The others read as their initial values.
  uint64_t keys_read = 0;
  uint64_t rows_found = 0;
};

// Adds up what the buckets of one table hold, apart from the memory for rows, which the SlabPool
// counts. One thread at a time changes the counts, and any thread may read them.
class TableCounts {
 public:
  // A bucket now holds `rows` more rows and `bytes` more bytes than when it was last counted. Both
  // may be negative.
  void Add(int64_t rows, int64_t bytes) {
    rows_.fetch_add(static_cast<uint64_t>(rows), std::memory_order_relaxed);
    bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  }
  void AddReads(uint64_t keys, uint64_t found) {
    keys_read_.fetch_add(keys, std::memory_order_relaxed);
    rows_found_.fetch_add(found, std::memory_order_release);
  }

  uint64_t rows() const { return rows_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  struct Reads {
    uint64_t keys = 0;
    uint64_t found = 0;
  };
  // Returns what AddReads has added up. `found` is at most `keys`, also while another thread adds:
  // each row that is counted here is that of a key which was counted before it.
  Reads reads() const {
    Reads reads;
    reads.found = rows_found_.load(std::memory_order_acquire);
    reads.keys = keys_read_.load(std::memory_order_relaxed);
    return reads;
  }

 private:
  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> keys_read_{0};
  std::atomic<uint64_t> rows_found_{0};
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_TABLE_USE_H_
