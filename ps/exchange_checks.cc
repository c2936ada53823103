#include "ps/exchange_checks.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/bulk.pb.h"

namespace shoal {

uint64_t PushedBytes(const v1::ExchangeRequest& request) {
  uint64_t bytes = 0;
  for (const v1::ExchangeRequest::Push& push : request.pushes()) bytes += push.payload_bytes();
  return bytes;
}

absl::Status CheckPushes(const v1::ExchangeRequest& request, const ParameterShard& shard,
                         const ParameterShard::Access& access, std::vector<uint32_t>* slices) {
  slices->clear();
  for (const v1::ExchangeRequest::Push& push : request.pushes()) {
    if (push.kind() == v1::CONTRIBUTION_KIND_UNSPECIFIED ||
        !v1::ContributionKind_IsValid(push.kind())) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", push.slice(), ": no contribution has ", "kind ", push.kind()));
    }
    slices->push_back(push.slice());
  }
  if (slices->empty()) return absl::OkStatus();
  RETURN_IF_ERROR(
      shard.CheckExamples(access, ToBatchKey(request.batch()), request.batch_examples()));
  return shard.CheckOwnsAll(access, *slices);
}

absl::Status CheckPulls(const v1::ExchangeRequest& request, const ParameterShard& shard,
                        const ParameterShard::Access& access, size_t max_bytes,
                        std::vector<uint32_t>* slices) {
  slices->assign(request.pulls().begin(), request.pulls().end());
  if (request.asks_for_room() && !slices->empty()) {
    return absl::InvalidArgumentError("asks_for_room: a request for room must not pull");
  }
  RETURN_IF_ERROR(shard.CheckOwnsAll(access, *slices));
  uint64_t bytes = 0;
  for (const uint32_t slice : *slices) {
    const Slice& pulled = (*access.table)[slice];
    if (pulled.is_bucket && request.pull_keys().empty() && !request.versions_only()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pulls: slice ", slice, " is a bucket, whose rows are pulled by keys"));
    }
    if (!pulled.is_bucket) bytes += pulled.num_bytes();
  }
  if (!request.versions_only() && bytes > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("pulls: ", bytes, " bytes in one call, at most ", max_bytes));
  }
  return absl::OkStatus();
}

}  // namespace shoal
