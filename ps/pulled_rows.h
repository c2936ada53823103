#ifndef SHOAL_PS_PULLED_ROWS_H_
#define SHOAL_PS_PULLED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "ps/scratch_pool.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/payload_reader.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

namespace v1 {
class ExchangeRequest;
}

// The rows of tables that one call pulls: their keys and, from when the call is answered, the
// memory for their values. A worker may have 48 calls wait, so memory that each would keep counts.
// Not thread-safe.
class PulledRows {
 public:
  // The pools that the memory is taken from and given back to; they must outlive the object.
  PulledRows(ScratchPool* for_keys, ScratchPool* for_values)
      : for_keys_(*for_keys), for_values_(*for_values) {}
  ~PulledRows() { Release(); }

  // Reads the keys of the pulled buckets from the front of the payload. Fills `*rows` with an entry
  // for each of the request's pulls, whose keys are valid until Release and which has no values
  // yet; clears it if the request has no keys. INVALID_ARGUMENT names what does not fit the table,
  // or if the values would have more than `max_bytes`; DATA_LOSS: keys are missing or damaged.
  absl::Status Take(const v1::ExchangeRequest& request, const SliceTable& table, size_t max_bytes,
                    bool with_checksums, PayloadReader* payload, std::vector<RowPull>* rows);

  // Sets the values of the `*rows` that Take has filled; they are valid until Release.
  void Allocate(std::vector<RowPull>* rows);
  // Gives all memory back.
  void Release();

 private:
  absl::Status ReadKeys(const v1::ExchangeRequest& request, bool with_checksums,
                        PayloadReader* payload);

  ScratchPool& for_keys_;
  ScratchPool& for_values_;
  std::vector<char> keys_;
  std::vector<char> values_;
  std::vector<uint64_t> floats_;  // The number of floats that each entry of `*rows` needs.
};

}  // namespace shoal

#endif  // SHOAL_PS_PULLED_ROWS_H_
