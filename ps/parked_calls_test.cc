// Tests exchanges of more groups with one ps than it may park calls, over all ways to reach it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/notification.h"
#include "proto/v1/parameter_service.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/ps_cluster_testing.h"
#include "runtime/exchange/remote_exchanges.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/plan/slice_table.h"

namespace shoal {
namespace {

class ParkedCallsTest : public testing::TestWithParam<PsForm> {
 protected:
  PsTestCluster cluster_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Forms, ParkedCallsTest, AllPsForms(), PsFormName);

// The scale follows from all slices, so no version comes before the last contribution.
TEST_P(ParkedCallsTest, ClippingByGlobalNormNeedsNoMoreParkedCallsThanAPsMayHave) {
  constexpr uint32_t kNumSlices = 3 * RemoteExchanges::kMaxCallsOfPs;
  v1::VariableSpec spec;
  cluster_.chief.norm_scale = 0.5;
  cluster_.chief.slices_with_norm = kNumSlices;
  const auto load = [&spec](v1::LoadSlicesRequest* request) {
    spec = request->variables(0);
    spec.set_shape(0, 2 * kNumSlices);
    request->clear_variables();
    *request->add_variables() = spec;
    request->mutable_run()->mutable_optimizer()->set_clip_by_global_norm(1);
    request->mutable_plan()->set_replicas_to_aggregate(1);
    request->mutable_shard_map()->set_slice_bytes(64);
    request->mutable_shard_map()->clear_owner();
    // The second ps has slices too, since every ps must have some.
    for (uint32_t i = 0; i < kNumSlices; ++i) {
      request->mutable_shard_map()->add_owner(i + 1 == kNumSlices ? 1 : 0);
    }
  };
  ASSERT_EQ(cluster_.Load(1, true, load), absl::OkStatus());
  const SliceTable table = SliceTable::Create({spec}, 64).value();
  RemoteVariableStore::Options options;
  options.run_id = "0123456789abcdef0123456789abcdef";
  options.incarnation = kTestWorker0;
  for (uint32_t i = 0; i < kNumSlices; ++i) {
    options.groups.push_back({i + 1 == kNumSlices ? 1u : 0u, {i}, 64, true});
  }
  options.connect = [this](const std::string& address) { return cluster_.Connect(address); };
  std::vector<float> gradient(16, 0.5f), values(16 * kNumSlices);
  std::vector<float*> pull_data(kNumSlices);
  const void* const push_data = gradient.data();
  std::atomic<uint32_t> with_value{0};
  std::vector<Notification> ended(kNumSlices);
  RemoteVariableStore store(table, std::move(options), &cluster_.clock);
  store.SetView(cluster_.View(1));
  for (uint32_t i = 0; i < kNumSlices; ++i) {
    Exchange exchange;
    exchange.group = i;
    exchange.lineage = 1;
    exchange.push = true;
    exchange.batch_examples = 2;
    exchange.push_data = &push_data;
    exchange.pull = true;
    exchange.pull_version = 1;
    pull_data[i] = &values[16 * i];
    exchange.pull_data = &pull_data[i];
    exchange.park = absl::Seconds(20);
    store.Start(exchange, [&with_value, &ended, i](const ExchangeResult& result) {
      if (result.status.ok() && result.pulls[0].has_value) ++with_value;
      ended[i].Notify();
    });
  }
  for (Notification& end : ended) end.Wait();
  EXPECT_EQ(with_value, kNumSlices) << "a parked call ended without the version";
  EXPECT_THAT(values, testing::Each(1.0f - 0.5f * 0.5f * 0.5f));
}

}  // namespace
}  // namespace shoal
