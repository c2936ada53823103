// Reads a ps's slices from the checkpoint that the chief names.
#ifndef SHOAL_PS_RESTORED_SLICES_H_
#define SHOAL_PS_RESTORED_SLICES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_slice_source.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_source.h"

namespace shoal {
namespace v1 {
class LoadSlicesRequest;
}

class RestoredSlices : public SliceSource {
 public:
  // Opens the request's checkpoint. The file system, the request and the store must outlive the
  // object. Returns INVALID_ARGUMENT if the request does not name a checkpoint, DATA_LOSS with the
  // damaged file, and FAILED_PRECONDITION if the checkpoint has other variables. Whether it was
  // made with another optimizer is found out by Fill and FillBucket, which then return
  // FAILED_PRECONDITION.
  static absl::StatusOr<std::unique_ptr<RestoredSlices>> Open(FileSystem* file_system,
                                                              const v1::LoadSlicesRequest& request,
                                                              const PartitionedStore& store);

  uint64_t version() const { return checkpoint_->manifest().step(); }
  absl::Status Fill(uint32_t slice, Contents* contents) override {
    return source_.Fill(slice, contents);
  }
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override {
    return source_.FillBucket(slice, contents);
  }

 private:
  RestoredSlices(std::unique_ptr<Checkpoint> checkpoint, CheckpointSliceSource source)
      : checkpoint_(std::move(checkpoint)), source_(std::move(source)) {}

  const std::unique_ptr<Checkpoint> checkpoint_;
  CheckpointSliceSource source_;
};

// Checks that the chief and this ps see the same checkpoint_root: returns FAILED_PRECONDITION
// unless it holds the token that the chief has written there, and the file system's error if that
// cannot be read. A request without a root or a token is not checked.
absl::Status CheckRootIsShared(FileSystem* file_system, const v1::LoadSlicesRequest& request);

}  // namespace shoal

#endif  // SHOAL_PS_RESTORED_SLICES_H_
