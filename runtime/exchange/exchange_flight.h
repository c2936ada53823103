// The memory of an exchange of RemoteExchanges; for remote_exchanges.cc only.
#ifndef SHOAL_RUNTIME_EXCHANGE_EXCHANGE_FLIGHT_H_
#define SHOAL_RUNTIME_EXCHANGE_EXCHANGE_FLIGHT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "proto/v1/identity.pb.h"
#include "runtime/exchange/exchange_attempts.h"
#include "runtime/exchange/remote_exchanges.h"
#include "runtime/rpc/retry.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// One exchange under way: the call that carries its attempts, and when the next one is due.
class RemoteExchanges::Flight : public BulkCall {
 public:
  Flight(RemoteExchanges* store, const ExchangeGroup* group, uint64_t seed, bool probe)
      : store_(store),
        ps(group->ps),
        is_probe(probe),
        attempts(&store->table_, group),
        wait(seed, kFirstWait, kLongestWait),
        busy_wait(seed, kBusyWait, kLongestBusyWait) {}

  void OnReply(const absl::Status& status, absl::string_view reply_header,
               PayloadReader* payload) override {
    store_->OnReply(this, status, reply_header, payload);
  }

 private:
  // The pause before room is requested again from a ps that did not park the request.
  static constexpr absl::Duration kBusyWait = absl::Milliseconds(2);
  static constexpr absl::Duration kLongestBusyWait = absl::Milliseconds(50);
  static constexpr absl::Duration kFirstWait = absl::Milliseconds(20);
  static constexpr absl::Duration kLongestWait = absl::Seconds(1);

  RemoteExchanges* const store_;

 public:
  const uint32_t ps;
  // True: the flight only asks whether the ps answers, for no caller. It is over when the ps has
  // answered, whatever the lineage.
  const bool is_probe;
  // Owned by the thread that advances the flight.
  ExchangeAttempts attempts;
  Done done;
  v1::Identity identity;
  Backoff wait;
  Backoff busy_wait;
  absl::Time started;
  absl::Time sent;
  bool with_checksums = true;
  // The store's lock guards the members below.
  Stage stage = Stage::kFree;
  uint64_t lineage = 0;
  std::shared_ptr<BulkChannel> channel;  // The channel of the attempt under way.
  uint64_t sends = 0;  // The number of attempts over all exchanges; names the newest one.
  // This side has cancelled the attempt under way, so its failure says nothing about the link.
  bool cut_short = false;
  bool is_parked = false;  // The ps may park the call under way.
  // kWaiting: the flight's number among those that wait for a place among the calls to the ps; 0:
  // it waits for something else.
  uint64_t queued = 0;
  bool must_park = false;  // If queued: the call that it will start is one that the ps may park.
  absl::Time wake;
  absl::Time next_log;  // When to log next that the ps still does not take the exchange.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_EXCHANGE_FLIGHT_H_
