#include "ps/pulled_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/bulk.pb.h"

namespace shoal {

absl::Status PulledRows::Take(const v1::ExchangeRequest& request, const SliceTable& table,
                              size_t max_bytes, bool with_checksums, PayloadReader* payload,
                              std::vector<RowPull>* rows) {
  Release();
  rows->clear();
  floats_.clear();
  if (request.pull_keys().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ReadKeys(request, with_checksums, payload));
  uint64_t num_values = 0;
  const uint64_t* keys = reinterpret_cast<const uint64_t*>(keys_.data());
  for (int i = 0; i < request.pulls_size(); ++i) {
    const uint32_t slice = request.pulls(i);
    const uint32_t count = request.pull_keys(i);
    if (slice >= table.size() || !table[slice].is_bucket) {
      return absl::InvalidArgumentError(
          absl::StrCat("pull_keys: slice ", slice, " is not a bucket of a table"));
    }
    for (uint32_t k = 0; k < count; ++k) {
      if (table.BucketOf(table[slice].variable, keys[k]) == slice) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("pull_keys: key ", keys[k], " is not of bucket ", slice));
    }
    rows->push_back({keys, count, nullptr});
    keys += count;
    floats_.push_back(count * table.row_elements_of(table[slice].variable));
    num_values += floats_.back();
  }
  if (num_values * sizeof(float) > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("pull_keys: rows of ",
                                                   num_values * sizeof(float),
                                                   " bytes in one call, at most ", max_bytes));
  }
  return absl::OkStatus();
}

void PulledRows::Allocate(std::vector<RowPull>* rows) {
  uint64_t num_values = 0;
  for (const uint64_t floats : floats_) num_values += floats;
  if (values_.capacity() == 0) values_ = for_values_.Take();
  if (values_.size() < num_values * sizeof(float)) values_.resize(num_values * sizeof(float));
  float* values = reinterpret_cast<float*>(values_.data());
  for (size_t i = 0; i < rows->size(); ++i) {
    (*rows)[i].values = values;
    values += floats_[i];
  }
}

void PulledRows::Release() {
  for_keys_.Give(std::exchange(keys_, {}));
  for_values_.Give(std::exchange(values_, {}));
}

absl::Status PulledRows::ReadKeys(const v1::ExchangeRequest& request, bool with_checksums,
                                  PayloadReader* payload) {
  if (request.pull_keys_size() != request.pulls_size()) {
    return absl::InvalidArgumentError(absl::StrCat("pull_keys: has ", request.pull_keys_size(),
                                                   " entries, the request has ",
                                                   request.pulls_size(), " pulls"));
  }
  uint64_t num_keys = 0;
  for (const uint32_t count : request.pull_keys()) num_keys += count;
  if (num_keys * sizeof(uint64_t) > payload->remaining()) {
    return absl::DataLossError("the keys of a pull arrived incomplete");
  }
  keys_ = for_keys_.Take();
  if (keys_.size() < num_keys * sizeof(uint64_t)) keys_.resize(num_keys * sizeof(uint64_t));
  uint32_t crc32c = 0;
  payload->Copy(keys_.data(), num_keys * sizeof(uint64_t), with_checksums ? &crc32c : nullptr);
  if (with_checksums && num_keys > 0 && crc32c != request.pull_keys_crc32c()) {
    return absl::DataLossError("the keys of a pull arrived damaged");
  }
  return absl::OkStatus();
}

}  // namespace shoal
