#include "runtime/variables/fold.h"

#include <algorithm>
#include <cstring>

#include "ml/optim/all_finite.h"

namespace shoal {
namespace {

constexpr size_t kBlock = 512;  // floats; fits L1 beside the sum

// Calls f(floats, count, offset) over an array of floats at any alignment.
template <typename F>
void ForBlocks(const char* bytes, size_t num_floats, F f) {
  if (reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
    f(reinterpret_cast<const float*>(bytes), num_floats, size_t{0});
    return;
  }
  alignas(64) float block[kBlock];
  for (size_t start = 0; start < num_floats; start += kBlock) {
    const size_t count = std::min(kBlock, num_floats - start);
    std::memcpy(block, bytes + start * sizeof(float), count * sizeof(float));
    f(block, count, start);
  }
}

void FoldDense(const char* bytes, size_t num_floats, float weight, bool first, float* sum) {
  ForBlocks(bytes, num_floats, [=](const float* __restrict values, size_t count, size_t offset) {
    float* __restrict out = sum + offset;
    if (first && weight == 1.0f) {
      std::memcpy(out, values, count * sizeof(float));
    } else if (first) {
      for (size_t i = 0; i < count; ++i) out[i] = weight * values[i];
    } else {
      for (size_t i = 0; i < count; ++i) out[i] += weight * values[i];
    }
  });
}

uint32_t ReadU32(const void* data, size_t index) {
  uint32_t value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(value), sizeof(value));
  return value;
}

// The position of a payload's numbers.
struct Numbers {
  const char* bytes;
  size_t count;
};

Numbers ReadNumbers(const Payload& payload, const SliceShape& shape) {
  const char* bytes = static_cast<const char*>(payload.data);
  if (payload.kind != ContributionKind::kSparse) return {bytes, shape.num_elements};
  const size_t rows = ReadU32(bytes, 0);
  return {bytes + (1 + rows) * sizeof(uint32_t), rows * shape.row_elements};
}

}  // namespace

bool PayloadFits(const Payload& payload, const SliceShape& shape) {
  if (payload.kind != ContributionKind::kSparse)
    return payload.bytes == shape.num_elements * sizeof(float);
  if (payload.bytes < sizeof(uint32_t)) return false;
  const uint64_t rows = ReadU32(payload.data, 0);
  const uint64_t rows_in_slice = shape.num_elements / shape.row_elements;
  if (rows > rows_in_slice) return false;
  if (payload.bytes != (1 + rows + rows * shape.row_elements) * sizeof(uint32_t)) return false;
  for (uint64_t i = 1; i <= rows; ++i) {
    if (ReadU32(payload.data, i) >= rows_in_slice) return false;
    if (i > 1 && ReadU32(payload.data, i) <= ReadU32(payload.data, i - 1)) return false;
  }
  return true;
}

bool PayloadIsFinite(const Payload& payload, const SliceShape& shape) {
  const Numbers numbers = ReadNumbers(payload, shape);
  bool finite = true;
  ForBlocks(numbers.bytes, numbers.count, [&finite](const float* values, size_t count, size_t) {
    finite = finite && AllFinite(values, count);
  });
  return finite;
}

void FoldPayload(const Payload& payload, const SliceShape& shape, float weight, bool first,
                 float* sum) {
  const Numbers numbers = ReadNumbers(payload, shape);
  if (payload.kind != ContributionKind::kSparse) {
    FoldDense(numbers.bytes, numbers.count, weight, first, sum);
    return;
  }
  if (first) std::fill_n(sum, shape.num_elements, 0.0f);
  const size_t rows = ReadU32(payload.data, 0);
  for (size_t i = 0; i < rows; ++i) {
    const size_t row = ReadU32(payload.data, 1 + i);
    FoldDense(numbers.bytes + i * shape.row_elements * sizeof(float), shape.row_elements, weight,
              false, sum + row * shape.row_elements);
  }
}

void ScaleInPlace(float factor, absl::Span<float> values) {
  for (float& value : values) value *= factor;
}

}  // namespace shoal
