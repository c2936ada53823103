// The logic of a RemoteVariableStore, without its thread.
#ifndef SHOAL_RUNTIME_EXCHANGE_REMOTE_EXCHANGES_H_
#define SHOAL_RUNTIME_EXCHANGE_REMOTE_EXCHANGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/exchange/ps_links.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// The exchanges of one worker with its ps tasks. Decides what each exchange sends next and when.
// Thread-safe. It has no threads: it runs on the threads of callers and channels, and its owner
// calls RunDue at the time that the previous call returned. After the first exchanges it allocates
// nothing.
class RemoteExchanges {
 public:
  struct Options {
    std::string run_id;
    uint32_t worker_index = 0;
    uint64_t incarnation = 0;
    std::vector<ExchangeGroup> groups;
    // Makes the channel to a ps. SetView calls it again when the ps has moved or was restarted;
    // exchanges with other ps continue meanwhile. Channels are destroyed before the store.
    std::function<std::unique_ptr<BulkChannel>(const std::string& address)> connect;
    bool secure = false;  // true if channels have certificates; for error texts
  };

  // The most calls to one ps at a time; further exchanges wait here in order. A connection carries
  // 64 calls at a time, and the deadline of a call that waited inside the connection would be
  // running.
  static constexpr int kMaxCallsOfPs = 56;
  // The most of these calls that the ps may park. They may wait for contributions to other slices
  // of the same ps, so contributions have places that parked calls never take. An exchange that
  // finds no place for a parked call pushes its contributions by a call of their own, and its pull
  // waits here. It asks for room by a call that does not wait.
  static constexpr int kMaxParkedCallsOfPs = 48;

  // `table` is copied; `clock` must outlive the object. `on_due` is called when RunDue has
  // something to do before the time that it returned. A lock is held then, so `on_due` must only
  // make a note.
  RemoteExchanges(const SliceTable& table, Options options, const Clock* clock,
                  std::function<void()> on_due);
  // Close must have been called, and is_idle() must be true.
  ~RemoteExchanges();

  const std::vector<ExchangeGroup>& groups() const { return options_.groups; }
  // See VariableStore.
  void Start(const Exchange& exchange, VariableStore::Done done);
  void SetView(const StoreView& view);

  using Link = PsLinks::Link;
  // Returns the links, indexed by ps of the view. A ps that has not answered any call yet is also
  // asked for its versions, again and again until it answers.
  std::vector<Link> CheckLinks();

  // Sends exchanges that have waited for long enough, ends those that are over, and destroys
  // channels that are not used any more. Returns when to call it again. For one caller at a time,
  // and not from a channel's thread.
  absl::Time RunDue();

  // Ends all exchanges with CANCELLED, inside later calls of RunDue or of channels.
  void Close();
  // Returns whether nothing is under way; after Close, also whether no channel is left.
  bool is_idle();

 private:
  class Flight;
  using Done = VariableStore::Done;

  // The stages of a flight: kFree -> kSending <-> kWaiting -> kEnding -> kFree.
  enum class Stage { kFree, kSending, kWaiting, kEnding };

  // The step at which the ps of a group last lacked room; pushes of that step ask for room first.
  struct BusyStep {
    uint64_t lineage = 0;
    uint64_t step = 0;
  };

  // The calls to one ps that are under way.
  struct Calls {
    int all = 0;
    int parked = 0;  // those that the ps may park
    int queued = 0;  // flights that wait for a place
  };

  void Send(Flight* flight);
  void OnReply(Flight* flight, const absl::Status& status, absl::string_view header,
               PayloadReader* payload);
  void LogFailure(const Flight& flight, absl::Duration age, const absl::Status& status);
  // Acts on a reply or its absence: ends the flight with a status, or waits and sends again.
  void EndOrWait(Flight* flight, const absl::Status& status);
  void WaitAndSend(Flight* flight, absl::Duration wait);
  // Asks after `wait`, or gives up if that would be too late.
  void AskForRoom(Flight* flight, absl::Duration wait);
  // Notes the result of an attempt.
  void NoteLink(const Flight& flight, bool answered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Flight* flight, const absl::Status& status);
  absl::Status WhyStopped(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelStoppedFlights(const std::vector<bool>& ps_moved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The flight's call has ended, which another flight may wait for.
  void OnCallEnded(Flight* flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the ps may get one more call, which is one that it parks if `must_park`.
  bool HasPlace(uint32_t ps, bool must_park) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns a flight whose time has come, or the first one of those that wait for a place and have
  // one. If there is none, returns null, and sets `wake` to the time of the next.
  Flight* NextWaiting(absl::Time now, absl::Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropRetired();

  const SliceTable table_;
  const Options options_;
  const Clock* const clock_;
  const std::function<void()> on_due_;

  Mutex setting_view_;  // Held by SetView while it connects; taken before mutex_.
  Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Only RunDue destroys channels, because its caller holds no lock that a reply might need.
  PsLinks links_ ABSL_GUARDED_BY(mutex_);
  bool dropping_ ABSL_GUARDED_BY(mutex_) = false;             // RunDue is destroying channels.
  std::vector<BusyStep> busy_steps_ ABSL_GUARDED_BY(mutex_);  // indexed by group
  std::vector<Calls> calls_ ABSL_GUARDED_BY(mutex_);          // indexed by ps
  // Numbers the flights that wait for a place among the calls to their ps.
  uint64_t last_queued_ ABSL_GUARDED_BY(mutex_) = 0;
  // kFlightsPerGroup for each group, in order, then one for each ps, which asks whether the ps
  // answers.
  std::vector<std::unique_ptr<Flight>> flights_;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_REMOTE_EXCHANGES_H_
