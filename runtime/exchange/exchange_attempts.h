// One exchange of a group with its ps, in as many attempts as necessary. Decides what each request
// contains, and records the parts that its reply settles.
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

// Pushes are repeated until their outcome is known and not BUSY or CORRUPT, after BUSY only once
// the ps has room. Pulls are repeated until they were answered with intact bytes. After eight
// damaged messages the exchange ends. The object keeps its memory from one exchange to the next.
//
// The rows of buckets are divided among several requests if they exceed what one message may carry
// (kDefaultMaxBulkPayloadBytes): all contributions first, then the pulls, since the ps may need the
// contributions to make the version that is pulled. Only the rows of a single bucket are never
// divided. Not thread-safe.
class ExchangeAttempts {
 public:
  // Both must outlive the object.
  ExchangeAttempts(const SliceTable* table, const ExchangeGroup* group);
  ~ExchangeAttempts();

  void Reset(const Exchange& exchange);
  // Makes the next requests ask for room for the contributions instead of carrying them, until a
  // reply grants the room. The ps may park such a request for up to `park`.
  void AskForRoom(absl::Duration park);
  const Exchange& exchange() const { return exchange_; }
  const ExchangeGroup* group() const { return group_; }

  enum class Parking {
    kNever,     // The ps answers the request at once.
    kOptional,  // The ps may park the request. FillRequest can also make one that the ps answers at
                // once: the contributions without the pulls, or a question for room without a wait.
    kAlways,    // The ps may park the request; only pulls are left.
  };
  // Returns what holds for the next request.
  Parking parking() const;

  // Fills in header, payloads and timeout of `call` for the parts that are not settled yet.
  // If `may_park` is false, it is a request that the ps answers at once; if parking() is kAlways,
  // `may_park` must be true.
  void FillRequest(const v1::Identity& sender, uint64_t receiver_incarnation, bool with_checksums,
                   bool may_park, BulkCall* call);

  enum class Next {
    kDone,       // result() is complete.
    kRetry,      // A message was lost or damaged: send again after the usual backoff.
    kRetryBusy,  // The ps lacks room: ask for it.
    kSend,       // The ps has room now, or parts have not been sent yet: send.
    kNoRoom,     // The ps still has no room after `park`.
  };
  // Takes a reply and copies values into the exchange's destinations. Returns DATA_LOSS if values
  // were damaged too often (contributions that were keep the outcome CORRUPT), and other errors if
  // the peer violates the protocol.
  absl::Status TakeReply(absl::string_view header, PayloadReader* payload, bool with_checksums,
                         Next* next);

  // Counts a request or reply whose header arrived damaged. Returns DATA_LOSS if that happened so
  // often that the request is not sent again.
  absl::Status TakeDamagedHeader();

  // Returns spans into this object.
  ExchangeResult result(const absl::Status& status) const;

 private:
  bool IsUnsettled(PushOutcome outcome) const;
  bool HasUnsettledPush() const;
  // Fills sent_pushes_ and sent_pulls_ for the next request.
  void ChooseParts(bool may_park);
  // Returns whether the pulls wait for their version: the caller wants that, and no push had an
  // outcome on which the caller has to act first.
  bool PullsWait() const;
  void AddPushes(bool with_checksums, BulkCall* call);
  void AddPulls(bool with_checksums, BulkCall* call);
  static void AddKeys(const RowPull& rows, BulkCall* call);
  Next TakeRoom();
  absl::Status TakeOutcomes(bool* damaged);
  absl::Status TakePulls(PayloadReader* payload, bool with_checksums, bool* damaged);
  uint64_t PushedBytes(uint32_t place) const;
  uint64_t PulledBytes(uint32_t place) const;
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
  std::vector<uint32_t> sent_pushes_;  // places in the group, in the order of the last request
  std::vector<uint32_t> sent_pulls_;
  bool has_more_ = false;              // parts were left out of the last request
  std::vector<PushOutcome> outcomes_;  // indexed by place in the group
  std::vector<PulledSlice> pulls_;     // indexed by place in the group
  std::vector<uint8_t> pull_settled_;  // indexed by place in the group
  std::vector<uint32_t> missing_positions_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_EXCHANGE_ATTEMPTS_H_
