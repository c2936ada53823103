// The memory that a worker shares with its compute program.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_MEMORY_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/unique_fd.h"
#include "worker/program/program_layout.h"

namespace shoal {

// Two anonymous files: the parameters, which only this process may write, and the contributions,
// which both may write. The sizes are fixed once there is a layout, so no access can fault.
class ProgramMemory {
 public:
  // Makes empty files, so that the program can inherit them.
  static absl::StatusOr<std::unique_ptr<ProgramMemory>> Create();
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  int parameters_fd() const { return parameters_.file.get(); }
  int contributions_fd() const { return contributions_.file.get(); }

  // Gives the files the sizes of the layout and maps them. Call it once. Pages that nobody writes
  // take no memory. ResourceExhausted: the system does not give that much.
  absl::Status Allocate(const ProgramLayout& layout);

  // Valid after Allocate.
  float* parameters(uint32_t set, uint32_t variable) const;
  float* contributions(uint32_t set, uint32_t variable) const;
  // The arrays in the areas of rows and of their gradients, `offset` bytes behind their beginning.
  float* rows(uint64_t offset) const;
  const float* row_gradients(uint64_t offset) const;

 private:
  struct Mapped {
    UniqueFd file;
    char* memory = nullptr;
    uint64_t bytes = 0;
  };
  static absl::Status Map(uint64_t bytes, bool is_read_only, Mapped* mapped);

  ProgramMemory() = default;

  ProgramLayout layout_;
  Mapped parameters_;
  Mapped contributions_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_MEMORY_H_
