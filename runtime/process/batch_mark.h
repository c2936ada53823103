// The batch that a worker is computing, written to a file that outlives the worker, so that its
// launcher can read it after a crash. The file has 32 bytes and is mapped into memory, so marking a
// batch costs a few stores.
#ifndef SHOAL_RUNTIME_PROCESS_BATCH_MARK_H_
#define SHOAL_RUNTIME_PROCESS_BATCH_MARK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "runtime/plan/batch_key.h"

namespace shoal {

struct MarkedBatch {
  BatchKey batch;
  uint64_t incarnation = 0;  // the incarnation of the worker
};

// Path of a worker's mark in the run's directory.
std::string BatchMarkPath(const std::string& run_directory, uint32_t worker);

// Writes the mark. Not thread-safe.
class BatchMark {
 public:
  // Creates the file or replaces an old one. Errors name the path.
  static absl::StatusOr<std::unique_ptr<BatchMark>> Create(const std::string& path);
  ~BatchMark();
  BatchMark(const BatchMark&) = delete;
  BatchMark& operator=(const BatchMark&) = delete;

  void Set(const MarkedBatch& batch);
  void Clear();

 private:
  explicit BatchMark(volatile uint64_t* words) : words_(words) {}
  volatile uint64_t* const words_;  // 1 if marked, epoch, index, incarnation
};

// Returns the batch that a dead worker was computing; none if it computed nothing or has no file.
std::optional<MarkedBatch> ReadBatchMark(const std::string& path);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_BATCH_MARK_H_
