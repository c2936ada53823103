// Checks of requests of the bulk path. They precede the first effect of a request.
#ifndef SHOAL_PS_EXCHANGE_CHECKS_H_
#define SHOAL_PS_EXCHANGE_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "ps/parameter_shard.h"

namespace shoal {

namespace v1 {
class ExchangeRequest;
}

// Returns the bytes of the payloads of all pushes.
uint64_t PushedBytes(const v1::ExchangeRequest& request);

// Fills `*slices` with the pushed slices. INVALID_ARGUMENT if one is not of this shard, has an
// unknown kind, or the batch has another number of examples in the step plan.
absl::Status CheckPushes(const v1::ExchangeRequest& request, const ParameterShard& shard,
                         const ParameterShard::Access& access, std::vector<uint32_t>* slices);

// Fills `*slices` with the pulled slices. INVALID_ARGUMENT if one is not of this shard, is a bucket
// that is pulled without keys, or their values together have more than `max_bytes`.
absl::Status CheckPulls(const v1::ExchangeRequest& request, const ParameterShard& shard,
                        const ParameterShard::Access& access, size_t max_bytes,
                        std::vector<uint32_t>* slices);

}  // namespace shoal

#endif  // SHOAL_PS_EXCHANGE_CHECKS_H_
