#ifndef SHOAL_ML_DATA_RECORDS_NPY_FILE_H_
#define SHOAL_ML_DATA_RECORDS_NPY_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// The array in a .npy file of NumPy, format versions 1 to 3: little-endian numbers, row-major.
struct NpyArray {
  char kind = 'f';        // 'f' floating, 'i' signed, 'u' unsigned, 'b' bool
  int element_bytes = 4;  // 1, 2, 4 or 8
  std::vector<int64_t> dims;
  std::string file;  // all bytes of the file
  size_t begin = 0;  // position of the elements in `file`

  int64_t num_elements() const;
  // Returns NumPy's name of the type, such as "<f4".
  std::string Type() const;
  absl::string_view elements() const { return absl::string_view(file).substr(begin); }

  // Returns the element at this position, rounded if a double cannot represent it.
  double At(int64_t index) const;

  // Returns the integer at this position; one of 64 bits without sign as the same 64 bits.
  int64_t IntegerAt(int64_t index) const;
};

// Reads a whole file. Errors name the file and the field: NotFound, DataLoss (not an array, or
// truncated), InvalidArgument (an array that is not supported: big-endian, column-major, objects,
// complex or half precision). The last one asks the user to save the array as `wanted`, the types
// that the caller accepts.
absl::StatusOr<NpyArray> ReadNpyFile(
    const std::string& path, absl::string_view wanted = "float32, float64, integers or bool");

// The most bytes of a header of format version 1, which NumPy writes for arrays of numbers.
inline constexpr size_t kMostNpyHeaderBytes = 10 + 65535;

// Parses only the header, from the first bytes of a file that has `file_bytes` bytes: all of them,
// or the first kMostNpyHeaderBytes. `file` of the result is empty, and `begin` is the position of
// the elements in the file. Errors are those of ReadNpyFile without the name of the file.
absl::StatusOr<NpyArray> ParseNpyHeader(absl::string_view head, uint64_t file_bytes,
                                        absl::string_view wanted);

// Returns the header of a .npy file with a float32 array; the elements must follow it, row-major.
std::string NpyHeader(const std::vector<int64_t>& dims);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_RECORDS_NPY_FILE_H_
