// Where a ps finds the slices of a checkpoint that the chief names.
#ifndef SHOAL_PS_SAVED_SLICES_H_
#define SHOAL_PS_SAVED_SLICES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/file_system.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_source.h"

namespace shoal {
namespace v1 {
class LoadSlicesRequest;
}

class SavedSlices : public SliceSource {
 public:
  // The request's checkpoint. The file system, the request and the store must outlive the object.
  // INVALID_ARGUMENT: not a checkpoint's name. DATA_LOSS names the damaged file.
  // FAILED_PRECONDITION: other variables or another optimizer.
  static absl::StatusOr<std::unique_ptr<SavedSlices>> Open(FileSystem* file_system,
                                                           const v1::LoadSlicesRequest& request,
                                                           const PartitionedStore& store);
  ~SavedSlices() override;

  uint64_t version() const;
  absl::Status Fill(uint32_t slice, Contents* contents) override;

 private:
  class Core;
  explicit SavedSlices(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// FAILED_PRECONDITION unless the request's checkpoint_root holds what the chief has put there: then
// both see the same directory. A request without a root or a token proves nothing and needs
// nothing.
absl::Status CheckRootIsShared(FileSystem* file_system, const v1::LoadSlicesRequest& request);

}  // namespace shoal

#endif  // SHOAL_PS_SAVED_SLICES_H_
