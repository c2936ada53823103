#include "runtime/process/batch_mark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "base/unique_fd.h"

namespace shoal {
namespace {

constexpr size_t kWords = 4;
constexpr size_t kBytes = kWords * sizeof(uint64_t);

// The number of the error, or 0.
int AllocateBlocks(int fd) {
  int error = 0;
  do {
    error = posix_fallocate(fd, 0, kBytes);
  } while (error == EINTR);
  return error;
}

}  // namespace

std::string BatchMarkPath(const std::string& run_directory, uint32_t worker) {
  return absl::StrCat(run_directory, "/logs/worker-", worker, ".batch");
}

absl::StatusOr<std::unique_ptr<BatchMark>> BatchMark::Create(const std::string& path) {
  const auto failed = [&path](int error) {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error), "; check --out"));
  };
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.is_valid()) return failed(errno);
  // Allocates the file's blocks: a store into a page without one, on a full disk, would end the
  // process.
  if (const int error = AllocateBlocks(fd.get()); error != 0) return failed(error);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return failed(errno);
  return std::unique_ptr<BatchMark>(new BatchMark(static_cast<volatile uint64_t*>(memory)));
}

BatchMark::~BatchMark() { munmap(const_cast<uint64_t*>(words_), kBytes); }

void BatchMark::Set(const MarkedBatch& batch) {
  words_[1] = batch.batch.epoch;
  words_[2] = batch.batch.index;
  words_[3] = batch.incarnation;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  words_[0] = 1;
}

void BatchMark::Clear() { words_[0] = 0; }

std::optional<MarkedBatch> ReadBatchMark(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t words[kWords];
  if (!fd.is_valid() || read(fd.get(), words, kBytes) != static_cast<ssize_t>(kBytes) ||
      words[0] != 1) {
    return std::nullopt;
  }
  return MarkedBatch{BatchKey{static_cast<uint32_t>(words[1]), words[2]}, words[3]};
}

}  // namespace shoal
