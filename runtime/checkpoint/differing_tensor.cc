#include "runtime/checkpoint/differing_tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/given_tensors.h"

namespace shoal {
namespace {

constexpr uint64_t kElementsAtOnce = 1 << 18;

// Compares a tensor, of which it reads at most `*most_elements`, and subtracts those it has read.
absl::StatusOr<bool> IsSame(const std::string& name, GivenTensors* first, GivenTensors* second,
                            uint64_t* most_elements) {
  const std::vector<int64_t>* const other_shape = second->ShapeOf(name);
  if (other_shape == nullptr) return false;
  const std::vector<int64_t>& shape = *first->ShapeOf(name);
  if (*other_shape != shape) return false;
  uint64_t count = 1;
  for (const int64_t size : shape) count *= static_cast<uint64_t>(size);
  count = std::min(count, *most_elements);
  *most_elements -= count;
  std::vector<float> values(std::min(count, kElementsAtOnce));
  std::vector<float> others(values.size());
  for (uint64_t at = 0; at < count; at += kElementsAtOnce) {
    const size_t length = std::min(count - at, kElementsAtOnce);
    RETURN_IF_ERROR(first->Read(name, "", at, absl::MakeSpan(values).first(length)));
    RETURN_IF_ERROR(second->Read(name, "", at, absl::MakeSpan(others).first(length)));
    if (std::memcmp(values.data(), others.data(), length * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

std::string FindDifferingTensor(FileSystem& file_system, const std::string& path,
                                const std::string& other_path, uint64_t most_bytes) {
  const absl::StatusOr<std::unique_ptr<GivenTensors>> first = GivenTensors::Open(file_system, path);
  const absl::StatusOr<std::unique_ptr<GivenTensors>> second =
      GivenTensors::Open(file_system, other_path);
  if (!first.ok() || !second.ok()) return "";
  uint64_t most_elements = most_bytes / sizeof(float);
  for (const std::string& name : (*first)->Names()) {
    if (most_elements == 0) return "";
    const absl::StatusOr<bool> same = IsSame(name, first->get(), second->get(), &most_elements);
    if (!same.ok()) return "";
    if (!*same) return name;
  }
  return "";
}

}  // namespace shoal
