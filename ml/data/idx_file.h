#ifndef SHOAL_ML_DATA_IDX_FILE_H_
#define SHOAL_ML_DATA_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// The content of an IDX file of unsigned bytes, the format of MNIST. The file consists of 2 zero
// bytes, the type 0x08, the number of dimensions (1 byte), each dimension (32 bits, big-endian),
// and then the elements.
struct IdxFile {
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;  // row-major
};

// Reads a file, gzipped or not, that must have `rank` dimensions. Errors name the file and the
// field: NotFound, DataLoss (another kind of file, truncated, damaged, or longer than its header
// declares), Unavailable (an error of the file system that may pass, see passing_errors.h), or
// another error of the file system.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int rank);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDX_FILE_H_
