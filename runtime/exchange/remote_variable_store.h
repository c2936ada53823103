// A worker's access to variables that are in ps tasks.
#ifndef SHOAL_RUNTIME_EXCHANGE_REMOTE_VARIABLE_STORE_H_
#define SHOAL_RUNTIME_EXCHANGE_REMOTE_VARIABLE_STORE_H_

#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/exchange/remote_exchanges.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// A VariableStore that uses proto/v1/bulk.proto with one channel per ps. `done` runs on the
// channel's thread, or on the store's own thread if the exchange had to wait. In addition to the
// errors of VariableStore, an exchange can end with an error that repeating cannot repair:
// FAILED_PRECONDITION (another run), INVALID_ARGUMENT or INTERNAL (the peers have different
// versions), DATA_LOSS (values arrived damaged every time they were sent). After the first
// exchanges it allocates nothing.
class RemoteVariableStore : public VariableStore {
 public:
  using Options = RemoteExchanges::Options;

  // `table` is copied; `clock` must outlive the store.
  RemoteVariableStore(const SliceTable& table, Options options, const Clock* clock);
  // Calls Shutdown if the owner has not.
  ~RemoteVariableStore() override;

  const std::vector<ExchangeGroup>& groups() const override { return exchanges_.groups(); }
  void Start(const Exchange& exchange, Done done) override;
  void SetView(const StoreView& view) override { exchanges_.SetView(view); }
  void Shutdown() override;

  // See RemoteExchanges.
  std::vector<RemoteExchanges::Link> CheckLinks() { return exchanges_.CheckLinks(); }

 private:
  void OnDue();
  void Run();

  const Clock* const clock_;
  RemoteExchanges exchanges_;
  Mutex mutex_;
  CondVar changed_;
  bool due_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;  // Nothing is under way.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;     // The thread may exit.
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_REMOTE_VARIABLE_STORE_H_
