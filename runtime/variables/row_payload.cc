#include "runtime/variables/row_payload.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/optim/all_finite.h"
#include "runtime/tables/row_index.h"

namespace shoal {
namespace {

constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);

bool Rise(absl::Span<const uint64_t> keys) {
  for (size_t i = 1; i < keys.size(); ++i) {
    if (keys[i - 1] >= keys[i]) return false;
  }
  return true;
}

}  // namespace

size_t RowPayloadBytes(size_t num_keys, size_t dim) {
  return num_keys == 0 ? 0 : kHeaderBytes + num_keys * (sizeof(uint64_t) + dim * sizeof(float));
}

void EncodeRows(const RowGradients& rows, size_t dim, char* payload) {
  if (rows.keys.empty()) return;
  const uint32_t header[2] = {static_cast<uint32_t>(rows.keys.size()), 0};
  std::memcpy(payload, header, kHeaderBytes);
  const size_t key_bytes = rows.keys.size() * sizeof(uint64_t);
  std::memcpy(payload + kHeaderBytes, rows.keys.data(), key_bytes);
  std::memcpy(payload + kHeaderBytes + key_bytes, rows.gradients,
              rows.keys.size() * dim * sizeof(float));
}

std::optional<RowGradients> DecodeRows(const Payload& payload, size_t dim, RowScratch* scratch) {
  if (payload.kind != ContributionKind::kRows) return std::nullopt;
  if (payload.bytes == 0) return RowGradients();
  if (payload.bytes < kHeaderBytes) return std::nullopt;
  uint32_t header[2];
  std::memcpy(header, payload.data, kHeaderBytes);
  const size_t num_keys = header[0];
  if (num_keys == 0 || header[1] != 0 || payload.bytes != RowPayloadBytes(num_keys, dim)) {
    return std::nullopt;
  }
  const char* data = static_cast<const char*>(payload.data);
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) != 0) {
    scratch->resize((payload.bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    std::memcpy(scratch->data(), data, payload.bytes);
    data = reinterpret_cast<const char*>(scratch->data());
  }
  RowGradients rows;
  rows.keys = {reinterpret_cast<const uint64_t*>(data + kHeaderBytes), num_keys};
  rows.gradients =
      reinterpret_cast<const float*>(data + kHeaderBytes + num_keys * sizeof(uint64_t));
  if (!Rise(rows.keys)) return std::nullopt;
  return rows;
}

bool RowsAreFinite(const RowGradients& rows, size_t dim) {
  return AllFinite(rows.gradients, rows.keys.size() * dim);
}

absl::Status CheckBucketRows(const BucketRows& rows, uint64_t version, size_t row_floats) {
  const auto damaged = [](const char* why) {
    return absl::DataLossError(absl::StrCat("a bucket of rows ", why));
  };
  if (rows.touched.size() != rows.keys.size() ||
      rows.rows.size() != rows.keys.size() * row_floats ||
      rows.counts.size() != rows.counted_keys.size() ||
      rows.counted_touched.size() != rows.counted_keys.size()) {
    return damaged("has arrays of lengths that do not fit each other");
  }
  if (!Rise(rows.keys) || !Rise(rows.counted_keys)) return damaged("has keys that do not rise");
  std::vector<uint64_t> both;
  std::set_intersection(rows.keys.begin(), rows.keys.end(), rows.counted_keys.begin(),
                        rows.counted_keys.end(), std::back_inserter(both));
  if (!both.empty()) return damaged("counts a key that has a row");
  for (const std::vector<uint32_t>* touched : {&rows.touched, &rows.counted_touched}) {
    for (const uint32_t one : *touched) {
      if (IsTouchedAfter(one, version)) return damaged("has a row of a later version");
    }
  }
  for (const uint32_t count : rows.counts) {
    if (count > RowIndex::kMostCount) return damaged("has a count that cannot be");
  }
  if (!AllFinite(rows.rows.data(), rows.rows.size())) {
    return damaged("has numbers that are not finite");
  }
  return absl::OkStatus();
}

}  // namespace shoal
