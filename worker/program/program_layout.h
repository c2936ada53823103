// The places of a program's arrays in the memory that it shares with its worker.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_LAYOUT_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_LAYOUT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "proto/v1/variable.pb.h"

namespace shoal {

struct ProgramLayout {
  static constexpr uint32_t kSets = 2;
  // The offsets of one variable in the two files, in bytes, by set.
  struct Place {
    std::array<uint64_t, kSets> parameters = {};
    std::array<uint64_t, kSets> contributions = {};
  };

  // The bytes for the rows of a batch, and for their gradients, if there are tables. That is
  // address space: pages that nobody writes take no memory.
  static constexpr uint64_t kRowBytes = uint64_t{4} << 30;

  uint64_t parameter_bytes = 0;  // The sizes of the files.
  uint64_t contribution_bytes = 0;
  std::vector<Place> places;  // Indexed by variable.
  // The area of rows begins here in the parameters' file, the area of their gradients in the
  // contributions' file. Without tables, row_bytes is 0.
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
};

// Arrays begin at multiples of 64 bytes, sets and the area of rows at multiples of 4096.
ProgramLayout LayOut(absl::Span<const v1::VariableSpec> variables, bool has_tables = false);

// Returns the bytes that an array takes with what lies between it and the next one.
uint64_t AlignedArray(uint64_t bytes);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_LAYOUT_H_
