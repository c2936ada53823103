// The chief's commands to a ps (proto/v1/parameter_service.proto), carried out on a ParameterShard.
#ifndef SHOAL_PS_PARAMETER_SERVICE_IMPL_H_
#define SHOAL_PS_PARAMETER_SERVICE_IMPL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ps/parameter_shard.h"
#include "runtime/rpc/parameter_client.h"

namespace shoal {

// Thread-safe.
class ParameterServiceImpl : public ParameterClient {
 public:
  // A checkpoint opened for reading: where slices come from.
  struct Checkpoint {
    uint64_t version = 0;
    std::unique_ptr<SliceSource> slices;
  };

  struct Options {
    uint32_t ps_index = 0;
    ParameterShard* shard = nullptr;  // Must outlive the service.
    // Opens the request's checkpoint. DATA_LOSS names the damaged file.
    std::function<absl::StatusOr<Checkpoint>(const v1::LoadSlicesRequest&, const SliceTable&)>
        open_checkpoint;
    // A lineage is about to be served from `request`.
    std::function<absl::Status(const v1::LoadSlicesRequest& request, const SliceStore& store)>
        on_load;
    // The chief asked for a cut; called before it is made.
    std::function<void(const v1::RequestCutRequest&)> on_cut_requested;
    std::function<void()> on_finish;
  };

  explicit ParameterServiceImpl(Options options) : options_(std::move(options)) {}

  absl::Status LoadSlices(const v1::LoadSlicesRequest& request,
                          v1::LoadSlicesResponse* response) override;
  absl::Status WithholdBatch(const v1::WithholdBatchRequest& request,
                             v1::WithholdBatchResponse* response) override;
  absl::Status DecideBatch(const v1::DecideBatchRequest& request,
                           v1::DecideBatchResponse* response) override;
  absl::Status RequestCut(const v1::RequestCutRequest& request,
                          v1::RequestCutResponse* response) override;
  absl::Status GetApplied(const v1::GetAppliedRequest& request,
                          v1::GetAppliedResponse* response) override;
  absl::Status Finish(const v1::FinishRequest& request, v1::FinishResponse* response) override;

 private:
  absl::StatusOr<std::unique_ptr<SliceStore>> Load(const v1::LoadSlicesRequest& request) const;
  absl::Status DescribeLoaded(const v1::LoadSlicesRequest& request,
                              v1::LoadSlicesResponse* response) const;

  const Options options_;
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SERVICE_IMPL_H_
