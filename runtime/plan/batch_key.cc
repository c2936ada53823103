#include "runtime/plan/batch_key.h"

#include "absl/strings/str_cat.h"

#include "proto/v1/identity.pb.h"

namespace shoal {

BatchKey ToBatchKey(const v1::BatchId& batch) { return BatchKey{batch.epoch(), batch.index()}; }

v1::BatchId ToProto(const BatchKey& batch) {
  v1::BatchId proto;
  proto.set_epoch(batch.epoch);
  proto.set_index(batch.index);
  return proto;
}

std::string ToString(const BatchKey& batch) {
  return absl::StrCat("batch ", batch.index, " of epoch ", batch.epoch);
}

}  // namespace shoal
