// The variables where ps tasks hold them.
#ifndef SHOAL_RUNTIME_RPC_REMOTE_VARIABLE_STORE_H_
#define SHOAL_RUNTIME_RPC_REMOTE_VARIABLE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/cluster/slice_table.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// Speaks proto/v1/bulk.proto with one channel per ps. `done` runs on the channel's thread, or on
// the store's own one when there was something to wait for. Besides what VariableStore promises, an
// exchange can end with an error that repeating cannot heal (FAILED_PRECONDITION: another run;
// INVALID_ARGUMENT or INTERNAL: the peers differ in version; DATA_LOSS: values arrive damaged
// however often they are sent). After the first exchanges nothing is
// allocated here.
class RemoteVariableStore : public VariableStore {
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

  // `table` is copied; `clock` must outlive the store.
  RemoteVariableStore(const SliceTable& table, Options options, const Clock* clock);
  // Shutdown, if that has not been.
  ~RemoteVariableStore() override;

  const std::vector<ExchangeGroup>& groups() const override { return options_.groups; }
  void Start(const Exchange& exchange, Done done) override;
  void SetView(const StoreView& view) override;
  void Shutdown() override;

 private:
  class Flight;

  // A flight's way: kFree -> kSending <-> kWaiting -> kEnding -> kFree.
  enum class Stage { kFree, kSending, kWaiting, kEnding };

  void Send(Flight* flight);
  void OnReply(Flight* flight, const absl::Status& status, absl::string_view header,
               PayloadReader* payload);
  void Complain(const Flight& flight, absl::Duration age, const absl::Status& status);
  // What a reply, or its absence, means: end with a status, or wait and send again.
  void EndOrWait(Flight* flight, const absl::Status& status);
  void WaitAndSend(Flight* flight, bool busy);
  void End(Flight* flight, const absl::Status& status);
  absl::Status WhyStopped(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelStoppedFlights(const std::vector<bool>& ps_moved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOutdated(const StoreView& view) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // By ps: whether it is elsewhere, or another one, in `view`.
  std::vector<bool> FindMoved(const StoreView& view) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void RunTimer();
  Flight* NextWaiting(absl::Time now, absl::Time* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropRetired();

  const SliceTable table_;
  const Options options_;
  const Clock* const clock_;

  Mutex setting_view_;  // Held by SetView, before mutex_ and while it connects.
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // The timer thread may end.
  bool has_view_ ABSL_GUARDED_BY(mutex_) = false;
  StoreView view_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<BulkChannel>> channels_ ABSL_GUARDED_BY(mutex_);  // By ps; or null.
  // Channels to where a ps was. Only the timer thread destroys them: it holds no lock that a reply
  // might want.
  std::vector<std::shared_ptr<BulkChannel>> retired_ ABSL_GUARDED_BY(mutex_);
  bool dropping_ ABSL_GUARDED_BY(mutex_) = false;  // The timer thread is destroying channels.
  std::vector<std::unique_ptr<Flight>> flights_;   // kFlightsPerGroup of each group, in order.
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread timer_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_REMOTE_VARIABLE_STORE_H_
