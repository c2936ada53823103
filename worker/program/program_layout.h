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

  uint64_t parameter_bytes = 0;  // The sizes of the files.
  uint64_t contribution_bytes = 0;
  std::vector<Place> places;  // Indexed by variable.
};

// Arrays begin at multiples of 64 bytes, sets at multiples of 4096.
ProgramLayout LayOut(absl::Span<const v1::VariableSpec> variables);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_LAYOUT_H_
