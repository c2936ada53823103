#include "worker/program/program_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

absl::Status SystemError(const char* call, uint64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("program: shared memory of ", bytes,
                                                   " bytes: ", call, ": ", std::strerror(errno)));
}

absl::StatusOr<UniqueFd> MakeFile(const char* name) {
  UniqueFd file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_valid()) return SystemError("memfd_create", 0);
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Create() {
  auto memory = absl::WrapUnique(new ProgramMemory);
  ASSIGN_OR_RETURN(memory->parameters_.file, MakeFile("shoal-parameters"));
  ASSIGN_OR_RETURN(memory->contributions_.file, MakeFile("shoal-contributions"));
  return memory;
}

ProgramMemory::~ProgramMemory() {
  for (const Mapped* mapped : {&parameters_, &contributions_}) {
    if (mapped->memory != nullptr) munmap(mapped->memory, mapped->bytes);
  }
}

absl::Status ProgramMemory::Map(uint64_t bytes, bool is_read_only, Mapped* mapped) {
  if (ftruncate(mapped->file.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemError("ftruncate", bytes);
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      mapped->file.get(), 0);
  if (memory == MAP_FAILED) return SystemError("mmap", bytes);
  mapped->memory = static_cast<char*>(memory);
  mapped->bytes = bytes;
  // Old kernels (before 5.1) cannot seal against future writes: there only the rule holds that a
  // program maps parameters for reading.
  if (is_read_only) fcntl(mapped->file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (fcntl(mapped->file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("fcntl", bytes);
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::Allocate(const ProgramLayout& layout) {
  layout_ = layout;
  RETURN_IF_ERROR(Map(layout.parameter_bytes, /*is_read_only=*/true, &parameters_));
  return Map(layout.contribution_bytes, /*is_read_only=*/false, &contributions_);
}

float* ProgramMemory::parameters(uint32_t set, uint32_t variable) const {
  return reinterpret_cast<float*>(parameters_.memory + layout_.places[variable].parameters[set]);
}

float* ProgramMemory::contributions(uint32_t set, uint32_t variable) const {
  return reinterpret_cast<float*>(contributions_.memory +
                                  layout_.places[variable].contributions[set]);
}

float* ProgramMemory::rows(uint64_t offset) const {
  return reinterpret_cast<float*>(parameters_.memory + layout_.rows + offset);
}

const float* ProgramMemory::row_gradients(uint64_t offset) const {
  return reinterpret_cast<const float*>(contributions_.memory + layout_.rows + offset);
}

}  // namespace shoal
