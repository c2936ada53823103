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

// People count epochs from 1, as the progress bar does.
std::string ToString(const BatchKey& batch) {
  return absl::StrCat("batch ", batch.index, " of epoch ", uint64_t{batch.epoch} + 1);
}

}  // namespace shoal
