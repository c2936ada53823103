#ifndef SHOAL_RUNTIME_TABLES_COPY_FLOATS_H_
#define SHOAL_RUNTIME_TABLES_COPY_FLOATS_H_

#include <cstddef>
#include <cstring>

namespace shoal {

// Copies `n` floats between arrays that do not overlap. Rows of usual widths consist of whole cache
// lines, and a call of memcpy would take longer than their copy.
inline void CopyFloats(const float* from, size_t n, float* to) {
  constexpr size_t kLine = 16, kMostInLine = 8 * kLine;
  if (n % kLine != 0 || n > kMostInLine) {
    std::memcpy(to, from, n * sizeof(float));
    return;
  }
  for (size_t i = 0; i < n; i += kLine) std::memcpy(to + i, from + i, kLine * sizeof(float));
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_COPY_FLOATS_H_
