// The tests that need no ps; the others are in ps/parameter_server_test.cc.
#include "runtime/exchange/remote_variable_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/notification.h"
#include "proto/v1/variable.pb.h"
#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/in_process_bulk_channel.h"

namespace shoal {
namespace {

SliceTable OneSlice() {
  v1::VariableSpec spec;
  spec.set_name("v");
  spec.add_shape(4);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  return *SliceTable::Create({spec}, 64);
}

TEST(RemoteVariableStoreTest, NothingWaitsForAConnectionThatIsBeingMade) {
  const RealClock clock;
  BulkTestService service;
  Notification connecting, may_connect;
  std::atomic<bool> connected{false};
  RemoteVariableStore::Options options;
  options.connect = [&](const std::string&) {
    connecting.Notify();
    may_connect.WaitFor(absl::Seconds(10));
    connected = true;
    return NewInProcessBulkChannel(&service);
  };
  RemoteVariableStore store(OneSlice(), std::move(options), &clock);
  std::thread sets([&] { store.SetView({1, 1, 1, {"ps"}, {1}}); });
  connecting.Wait();
  store.Shutdown();
  EXPECT_FALSE(connected);
  may_connect.Notify();
  sets.join();
}

}  // namespace
}  // namespace shoal
