// Serves the bulk path of a ps: decodes requests, checks bytes, and answers with the shard's values
// where they lie.
#ifndef SHOAL_PS_EXCHANGE_SERVICE_H_
#define SHOAL_PS_EXCHANGE_SERVICE_H_

#include <cstddef>
#include <memory>

#include "ps/parameter_shard.h"
#include "ps/ps_metrics.h"
#include "runtime/transport/bulk.h"

namespace shoal {

// Every check of a request comes before its first effect, and a request that fails one changes
// nothing:
//   INVALID_ARGUMENT  not a request, or about slices that this ps does not own
//   receiver rules    FAILED_PRECONDITION, ABORTED; UNAVAILABLE unless serving
// Damaged or cut payloads are the outcome CORRUPT of their slices. Thread-safe.
class ExchangeService : public BulkService {
 public:
  // Pulls above `max_payload_bytes` in one call are refused. `shard` and `metrics` must outlive the
  // service and its calls.
  ExchangeService(ParameterShard* shard, size_t max_payload_bytes, PsMetrics* metrics);
  ~ExchangeService() override;

  void Exchange(ServedCall* call) override;

 private:
  class Work;
  class WorkPool;

  const std::shared_ptr<WorkPool> pool_;  // Payloads may be released after the service is gone.
};

}  // namespace shoal

#endif  // SHOAL_PS_EXCHANGE_SERVICE_H_
