#ifndef SHOAL_PS_PULLED_ROWS_H_
#define SHOAL_PS_PULLED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "runtime/plan/slice_table.h"
#include "runtime/transport/payload_reader.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

namespace v1 {
class ExchangeRequest;
}

// The rows of tables that one call pulls: their keys, and the memory for their values. It is reused
// for many calls and then allocates only for a call with more rows than all before. Not
// thread-safe.
class PulledRows {
 public:
  // Reads the keys of the pulled buckets from the front of the payload. Fills `*rows` with an entry
  // for each of the request's pulls, whose pointers are valid until the next call; clears it if the
  // request has no keys. INVALID_ARGUMENT names what does not fit the table, or if the values would
  // have more than `max_bytes`; DATA_LOSS: keys are missing or damaged.
  absl::Status Take(const v1::ExchangeRequest& request, const SliceTable& table, size_t max_bytes,
                    bool with_checksums, PayloadReader* payload, std::vector<RowPull>* rows);

 private:
  absl::Status ReadKeys(const v1::ExchangeRequest& request, bool with_checksums,
                        PayloadReader* payload);

  std::vector<uint64_t> keys_;
  std::vector<float> values_;
};

}  // namespace shoal

#endif  // SHOAL_PS_PULLED_ROWS_H_
