// One exchange of a group with its ps, over as many attempts as it takes: what each request asks
// for, and what its reply settles.
#ifndef SHOAL_RUNTIME_EXCHANGE_EXCHANGE_ATTEMPTS_H_
#define SHOAL_RUNTIME_EXCHANGE_EXCHANGE_ATTEMPTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "runtime/plan/slice_table.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {
namespace v1 {
class ExchangeRequest;
class ExchangeResponse;
class Identity;
}  // namespace v1

// Pushes are repeated until their outcome is known and not BUSY or CORRUPT, after BUSY only when
// the ps has room; pulls until they were answered with intact bytes; but what is damaged eight
// times is not asked for again. Keeps its memory from one exchange to the next. Not thread-safe.
class ExchangeAttempts {
 public:
  // Both must outlive the object.
  ExchangeAttempts(const SliceTable* table, const ExchangeGroup* group);
  ~ExchangeAttempts();

  void Reset(const Exchange& exchange);
  // The next requests carry no contributions: they ask for room for them, for `park` at most, until
  // a reply has it.
  void AskForRoom(absl::Duration park);
  const Exchange& exchange() const { return exchange_; }
  const ExchangeGroup* group() const { return group_; }

  // Fills header, payloads and timeout of `call` with what is not settled yet.
  void FillRequest(const v1::Identity& sender, uint64_t receiver_incarnation, bool with_checksums,
                   BulkCall* call);

  enum class Next {
    kDone,       // result() is complete.
    kRetry,      // Something was lost or damaged: ask again after the usual backoff.
    kRetryBusy,  // The receiver lacks room: ask for it.
    kSend,       // It has room now: send.
    kNoRoom,     // It still has none after the time that it was asked to wait.
  };
  // Takes a reply, copying values into the exchange's destinations. DATA_LOSS: values are still
  // damaged, and will be (contributions that are keep their outcome CORRUPT). Other errors: the
  // peer does not keep to the protocol.
  absl::Status TakeReply(absl::string_view header, PayloadReader* payload, bool with_checksums,
                         Next* next);

  // The header of a request or of its reply arrived damaged: counts as damage. DATA_LOSS: so often
  // that it is not sent again.
  absl::Status TakeDamagedHeader();

  // Spans into this object.
  ExchangeResult result(const absl::Status& status) const;

 private:
  bool IsUnsettled(PushOutcome outcome) const;
  void AddPushes(bool with_checksums, BulkCall* call);
  void AddPulls();
  Next TakeRoom();
  absl::Status TakeOutcomes(bool* damaged);
  absl::Status TakePulls(PayloadReader* payload, bool with_checksums, bool* damaged);
  uint64_t BytesOf(uint32_t place) const { return (*table_)[group_->slices[place]].num_bytes(); }

  const SliceTable* const table_;
  const ExchangeGroup* const group_;
  const bool has_report_slice_;
  Exchange exchange_;
  int damaged_replies_ = 0;
  bool asks_for_room_ = false;
  absl::Duration room_park_;

  std::unique_ptr<v1::ExchangeRequest> request_;
  std::unique_ptr<v1::ExchangeResponse> response_;
  std::vector<uint32_t> sent_pushes_;  // Places in the group, in the order of the last request.
  std::vector<uint32_t> sent_pulls_;
  std::vector<PushOutcome> outcomes_;  // By place.
  std::vector<PulledSlice> pulls_;     // By place.
  std::vector<uint8_t> pull_settled_;  // By place.
  std::vector<uint32_t> missing_positions_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_EXCHANGE_ATTEMPTS_H_
