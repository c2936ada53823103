// The batch in a worker's hand, written where it outlives the worker: when the worker crashes, its
// launcher reads which batch it was computing. One file of 32 bytes, mapped into memory: marking
// costs a few stores.
#ifndef SHOAL_RUNTIME_PROCESS_BATCH_MARK_H_
#define SHOAL_RUNTIME_PROCESS_BATCH_MARK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "runtime/plan/batch_key.h"

namespace shoal {

struct MarkedBatch {
  BatchKey batch;
  uint64_t incarnation = 0;  // of the worker
};

// Path of a worker's mark in the run's directory.
std::string BatchMarkPath(const std::string& run_directory, uint32_t worker);

// One thread at a time.
class BatchMark {
 public:
  // Makes the file anew. Errors name the path.
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
absl::optional<MarkedBatch> ReadBatchMark(const std::string& path);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_BATCH_MARK_H_
