// The bytes that a step with a table sends and receives, and a batch whose rows exceed a message.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "base/notification.h"
#include "proto/v1/parameter_service.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/ps_test_cluster.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/bulk.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/row_payload.h"

namespace shoal {
namespace {

constexpr uint32_t kBuckets = 256;

// The messages of all connections of a worker.
struct Traffic {
  std::atomic<uint64_t> bytes{0};  // headers and payloads
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> largest{0};  // payload of one direction
};

// A call whose messages are counted. Deletes itself with its end.
class CountedCall : public BulkCall {
 public:
  CountedCall(BulkCall* original, Traffic* traffic) : original_(original), traffic_(*traffic) {
    header = original->header;
    payloads = original->payloads;
    timeout = original->timeout;
    uint64_t payload_bytes = 0;
    for (const PayloadRef& payload : payloads) payload_bytes += payload.bytes;
    traffic_.calls += 1;
    Count(header.size(), payload_bytes);
  }

  void OnReply(const absl::Status& status, absl::string_view reply_header,
               PayloadReader* payload) override {
    Count(reply_header.size(), payload->remaining());
    original_->is_answered = is_answered;
    original_->OnReply(status, reply_header, payload);
    delete this;
  }

 private:
  void Count(uint64_t header_bytes, uint64_t payload_bytes) {
    traffic_.bytes += header_bytes + payload_bytes;
    uint64_t largest = traffic_.largest;
    while (largest < payload_bytes &&
           !traffic_.largest.compare_exchange_weak(largest, payload_bytes)) {
    }
  }

  BulkCall* const original_;
  Traffic& traffic_;
};

class CountingChannel : public BulkChannel {
 public:
  CountingChannel(std::unique_ptr<BulkChannel> channel, Traffic* traffic)
      : channel_(std::move(channel)), traffic_(traffic) {}
  void Start(BulkCall* call) override { channel_->Start(new CountedCall(call, traffic_)); }
  void Cancel(BulkCall* /*call*/) override {}  // Calls end by their deadlines.
  bool needs_checksums() const override { return channel_->needs_checksums(); }

 private:
  const std::unique_ptr<BulkChannel> channel_;
  Traffic* const traffic_;
};

class TableBytesTest : public testing::TestWithParam<PsForm> {
 protected:
  void Load(int64_t dim) {
    dim_ = dim;
    v1::VariableSpec item;
    item.set_name("item");
    item.add_shape(dim);
    item.set_dtype(v1::DATA_TYPE_FLOAT32);
    item.set_trainable(true);
    item.set_update(v1::UPDATE_KIND_OPTIMIZER);
    item.mutable_table()->set_buckets(kBuckets);
    table_ = std::make_unique<SliceTable>(std::move(SliceTable::Create({item}, 512).value()));
    std::vector<uint32_t> owners;
    for (uint32_t slice = 0; slice < kBuckets; ++slice) owners.push_back(slice % kNumTestPs);
    ASSERT_EQ(cluster_.Load(1, true,
                            [&](v1::LoadSlicesRequest* request) {
                              request->clear_variables();
                              *request->add_variables() = item;
                              request->mutable_shard_map()->clear_owner();
                              for (const uint32_t owner : owners) {
                                request->mutable_shard_map()->add_owner(owner);
                              }
                            }),
              absl::OkStatus());
    RemoteVariableStore::Options options;
    options.run_id = "0123456789abcdef0123456789abcdef";
    options.incarnation = kTestWorker0;
    options.groups = MakeExchangeGroups(*table_, owners);
    options.connect = [this](const std::string& address) {
      return std::make_unique<CountingChannel>(cluster_.Connect(address), &traffic_);
    };
    store_ = std::make_unique<RemoteVariableStore>(*table_, std::move(options), &cluster_.clock);
    store_->SetView(cluster_.View(1));
  }

  // Pushes a gradient of ones for the keys 0 to num_keys - 1 as both contributions of a step, and
  // reads the rows of the version that it makes with the second. Before, no key was touched.
  void Step(uint64_t step, uint64_t num_keys) {
    std::vector<std::vector<uint64_t>> keys(kBuckets);
    for (uint64_t key = 0; key < num_keys; ++key) keys[table_->BucketOf(0, key)].push_back(key);
    for (const uint32_t position : {0, 1}) {
      for (uint32_t g = 0; g < store_->groups().size(); ++g) {
        const std::vector<uint32_t>& slices = store_->groups()[g].slices;
        std::vector<std::string> payloads;
        std::vector<std::vector<float>> values;
        for (const uint32_t slice : slices) {
          const size_t n = keys[slice].size();
          const std::vector<float> ones(n * static_cast<size_t>(dim_), 1);
          payloads.emplace_back(RowPayloadBytes(n, static_cast<size_t>(dim_)), '\0');
          EncodeRows({keys[slice], ones.data()}, static_cast<size_t>(dim_), payloads.back().data());
          values.emplace_back(ones.size());
        }
        std::vector<const void*> push_data;
        std::vector<uint64_t> push_bytes;
        std::vector<RowPull> pulls;
        for (size_t i = 0; i < slices.size(); ++i) {
          push_data.push_back(payloads[i].data());
          push_bytes.push_back(payloads[i].size());
          const std::vector<uint64_t>& wanted = keys[slices[i]];
          pulls.push_back({wanted.data(), static_cast<uint32_t>(wanted.size()), values[i].data()});
        }
        const std::vector<ContributionKind> kinds(slices.size(), ContributionKind::kRows);
        Exchange exchange;
        exchange.group = g;
        exchange.lineage = 1;
        exchange.push = true;
        exchange.batch = {static_cast<uint32_t>(step / 2), step % 2 * 2 + position};
        exchange.step = step;
        exchange.position = position;
        exchange.batch_examples = 2;
        exchange.push_kinds = kinds.data();
        exchange.push_data = push_data.data();
        exchange.push_bytes = push_bytes.data();
        exchange.pull = position == 1;
        exchange.pull_version = step + 1;
        exchange.pull_rows = pulls.data();
        exchange.park = absl::Seconds(20);
        Notification done;
        store_->Start(exchange, [&](const ExchangeResult& result) {
          EXPECT_EQ(result.status, absl::OkStatus());
          for (const PushOutcome outcome : result.outcomes) {
            EXPECT_EQ(outcome, PushOutcome::kAccepted);
          }
          for (const PulledSlice& pulled : result.pulls) EXPECT_TRUE(pulled.has_value);
          done.Notify();
        });
        done.Wait();
        for (size_t i = 0; exchange.pull && i < slices.size(); ++i) {
          EXPECT_EQ(std::count(values[i].begin(), values[i].end(), -0.5f),
                    static_cast<ptrdiff_t>(values[i].size()));
        }
      }
    }
  }

  int64_t dim_ = 0;
  PsTestCluster cluster_{GetParam()};
  Traffic traffic_;
  std::unique_ptr<SliceTable> table_;
  std::unique_ptr<RemoteVariableStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Forms, TableBytesTest, AllPsForms(), PsFormName);

// Two contributions name each key and have a gradient row, and the pull names each key and is
// answered with a row.
TEST_P(TableBytesTest, AStepSendsTheKeysAndRowsThatItTouches) {
  Load(/*dim=*/16);
  // A batch without keys sends only versions, a few bytes for each bucket.
  Step(0, 0);
  EXPECT_LE(traffic_.bytes, 3 * kBuckets * 40);
  traffic_.bytes = 0;
  constexpr uint64_t kKeys = 20000;
  Step(1, kKeys);
  const uint64_t touched = kKeys * 3 * (8 + 16 * 4);
  EXPECT_GE(traffic_.bytes, touched);
  EXPECT_LE(traffic_.bytes, touched + touched / 10);
}

TEST_P(TableBytesTest, ABatchOfAMillionRowsTravelsInSeveralMessages) {
  Load(/*dim=*/4);
  Step(0, 1000000);
  EXPECT_GT(traffic_.calls, 8u);
  EXPECT_LE(traffic_.largest, kDefaultMaxBulkPayloadBytes);
}

}  // namespace
}  // namespace shoal
