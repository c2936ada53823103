// Serves the bulk path of a ps: decodes requests, checks payloads, and answers with the shard's
// values without copying them.
#ifndef SHOAL_PS_EXCHANGE_SERVICE_H_
#define SHOAL_PS_EXCHANGE_SERVICE_H_

#include <cstddef>
#include <memory>

#include "ps/parameter_shard.h"
#include "ps/ps_metrics.h"
#include "runtime/transport/bulk.h"

namespace shoal {

// All checks of a request precede its first effect, so a refused request changes nothing. It is
// refused with
//   INVALID_ARGUMENT  if it is malformed or names slices that this ps does not own;
//   UNAVAILABLE or ABORTED  by the receiver rules, UNAVAILABLE if the ps is not serving.
// Slices with damaged or truncated payloads get the outcome CORRUPT. Thread-safe.
class ExchangeService : public BulkService {
 public:
  // A call that pulls more than `max_payload_bytes` is refused. `shard` and `metrics` must outlive
  // the service and its calls. The slices are spread over `num_parts`, which bounds the copies of
  // messages that are kept for reuse.
  ExchangeService(ParameterShard* shard, size_t max_payload_bytes, PsMetrics* metrics,
                  size_t num_parts);
  ~ExchangeService() override;

  void Exchange(ServedCall* call) override;

 private:
  class Work;
  class WorkPool;

  // Shared with payloads, which may be released after the service is destroyed.
  const std::shared_ptr<WorkPool> pool_;
};

}  // namespace shoal

#endif  // SHOAL_PS_EXCHANGE_SERVICE_H_
