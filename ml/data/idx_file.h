#ifndef SHOAL_ML_DATA_IDX_FILE_H_
#define SHOAL_ML_DATA_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// The content of an IDX file of unsigned bytes, the format of MNIST: big-endian 2 zero bytes, type
// 0x08, number of dimensions, dimensions as 32 bits each, then the bytes.
struct IdxFile {
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;  // row-major
};

// Reads a file, gzipped or not, that must have `rank` dimensions. Errors name the file and the
// field: NotFound, InvalidArgument (another kind of file), DataLoss (truncated, damaged, longer
// than it says).
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int rank);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDX_FILE_H_
