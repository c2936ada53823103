#ifndef SHOAL_ML_DATA_NPY_FILE_H_
#define SHOAL_ML_DATA_NPY_FILE_H_

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
  std::string file;  // its bytes
  size_t begin = 0;  // position of the elements in `file`

  int64_t num_elements() const;
  // "<f4", as NumPy writes it.
  std::string Type() const;
  absl::string_view elements() const { return absl::string_view(file).substr(begin); }

  // An element by its position, rounded where a double cannot hold it.
  double At(int64_t index) const;
};

// Errors name the file and the field: NotFound, DataLoss (no array, truncated), InvalidArgument (a
// kind of array that is not read: big-endian, column-major, objects, complex, half precision; it
// tells to save `wanted`: the types that the caller takes).
absl::StatusOr<NpyArray> ReadNpyFile(
    const std::string& path, absl::string_view wanted = "float32, float64, integers or bool");

// The header of a float32 array in a .npy file; its elements follow, row-major.
std::string NpyHeader(const std::vector<int64_t>& dims);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_NPY_FILE_H_
