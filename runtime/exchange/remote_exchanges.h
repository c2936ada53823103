// What a RemoteVariableStore does, without its thread.
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
#include "runtime/plan/slice_table.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// The exchanges of one worker with its ps tasks: which are under way, what each asks for next and
// when. Thread-safe, and without threads: calls run on those of the callers and channels, and
// whoever owns the object calls RunDue when it is due. After the first exchanges nothing is
// allocated here.
class RemoteExchanges {
 public:
  struct Options {
    std::string run_id;
    uint32_t worker_index = 0;
    uint64_t incarnation = 0;
    std::vector<ExchangeGroup> groups;
    // Makes the channel to a ps; called again when the ps has moved or was restarted, inside
    // SetView; exchanges go on meanwhile. Channels are destroyed before the store is.
    std::function<std::unique_ptr<BulkChannel>(const std::string& address)> connect;
    bool secure = false;  // Channels have certificates; for messages.
  };

  // More exchanges with a ps wait here, in order: a connection carries 64 calls at a time, and the
  // deadline of one that waits for its turn inside it would run.
  static constexpr int kMaxCallsOfPs = 48;

  // `table` is copied; `clock` must outlive the object. `on_due`: RunDue has something to do before
  // the time that it returned; called with a lock held, so it takes a note and returns.
  RemoteExchanges(const SliceTable& table, Options options, const Clock* clock,
                  std::function<void()> on_due);
  // Close and is_idle come before.
  ~RemoteExchanges();

  const std::vector<ExchangeGroup>& groups() const { return options_.groups; }
  // See VariableStore.
  void Start(const Exchange& exchange, VariableStore::Done done);
  void SetView(const StoreView& view);

  // The way to one ps, as the incarnation that the view names.
  struct Way {
    bool is_proven = false;                      // The ps has answered,
    absl::Time answered = absl::InfinitePast();  // at last then.
    // From then on it was asked and did not answer.
    absl::Time silent_since = absl::InfiniteFuture();
  };
  // By ps of the view. Asks each ps that has not answered for its versions, until it does.
  std::vector<Way> CheckWays();

  // Sends what has waited for long enough, ends what is over, and destroys channels that nobody
  // uses any more. Returns when to call it again. One caller at a time, and not from a channel.
  absl::Time RunDue();

  // Ends all exchanges with CANCELLED, inside later calls of RunDue or of channels.
  void Close();
  // Nothing is under way, and after Close no channel is left.
  bool is_idle();

 private:
  class Flight;
  using Done = VariableStore::Done;

  // A flight's way: kFree -> kSending <-> kWaiting -> kEnding -> kFree.
  enum class Stage { kFree, kSending, kWaiting, kEnding };

  // The step at which the ps of a group last lacked room: what is pushed to it asks first.
  struct BusyStep {
    uint64_t lineage = 0;
    uint64_t step = 0;
  };

  void Send(Flight* flight);
  void OnReply(Flight* flight, const absl::Status& status, absl::string_view header,
               PayloadReader* payload);
  void Complain(const Flight& flight, absl::Duration age, const absl::Status& status);
  // What a reply, or its absence, means: end with a status, or wait and send again.
  void EndOrWait(Flight* flight, const absl::Status& status);
  void WaitAndSend(Flight* flight, absl::Duration wait);
  // After `wait`, or gives up.
  void AskForRoom(Flight* flight, absl::Duration wait);
  // An attempt has ended.
  void NoteWay(const Flight& flight, bool answered) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Flight* flight, const absl::Status& status);
  absl::Status WhyStopped(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelStoppedFlights(const std::vector<bool>& ps_moved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOutdated(const StoreView& view) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // By ps: whether it is elsewhere, or another one, in `view`.
  std::vector<bool> FindMoved(const StoreView& view) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A call to the ps has ended: the next one that waits for that.
  void OnCallEnded(uint32_t ps) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Flight* NextWaiting(absl::Time now, absl::Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropRetired();

  const SliceTable table_;
  const Options options_;
  const Clock* const clock_;
  const std::function<void()> on_due_;

  Mutex setting_view_;  // Held by SetView, before mutex_ and while it connects.
  Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_view_ ABSL_GUARDED_BY(mutex_) = false;
  StoreView view_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<BulkChannel>> channels_ ABSL_GUARDED_BY(mutex_);  // By ps; or null.
  // Channels to where a ps was. Only RunDue destroys them: its caller holds no lock that a reply
  // might want.
  std::vector<std::shared_ptr<BulkChannel>> retired_ ABSL_GUARDED_BY(mutex_);
  bool dropping_ ABSL_GUARDED_BY(mutex_) = false;             // RunDue is destroying channels.
  std::vector<BusyStep> busy_steps_ ABSL_GUARDED_BY(mutex_);  // By group.
  std::vector<int> num_calls_ ABSL_GUARDED_BY(mutex_);        // By ps: under way on channels.
  uint64_t last_queued_ ABSL_GUARDED_BY(mutex_) = 0;  // Counts those that wait for a call to end.
  std::vector<Way> ways_ ABSL_GUARDED_BY(mutex_);     // By ps.
  // kFlightsPerGroup of each group, in order; then one for each ps, to ask whether it is there.
  std::vector<std::unique_ptr<Flight>> flights_;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_REMOTE_EXCHANGES_H_
