// Workers exchange rows of a table with ps tasks, over gRPC, shared memory and inside one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
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
#include "runtime/transport/faulty_bulk_channel.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/row_payload.h"

namespace shoal {
namespace {

constexpr uint32_t kBuckets = 6;
constexpr int64_t kDim = 3;
constexpr uint64_t kKeys = 40;

v1::VariableSpec Item() {
  v1::VariableSpec spec;
  spec.set_name("item");
  spec.add_shape(kDim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(kBuckets);
  return spec;
}

SliceTable Table() { return std::move(SliceTable::Create({Item()}, 512).value()); }

// Every bucket belongs to one of two ps.
std::vector<uint32_t> Owners() { return {0, 1, 0, 1, 0, 1}; }

void LoadOnlyTheTable(v1::LoadSlicesRequest* request) {
  request->clear_variables();
  *request->add_variables() = Item();
  request->mutable_shard_map()->clear_owner();
  for (const uint32_t owner : Owners()) request->mutable_shard_map()->add_owner(owner);
}

using Gradients = std::map<uint64_t, float>;  // keyed by key; all elements of a row are the same

// A worker with memory for the rows of all keys.
class Worker {
 public:
  Worker(PsTestCluster* cluster, uint32_t index, BulkFaults* faults = nullptr)
      : store_(table_, Options(cluster, index, faults), &cluster->clock) {
    store_.SetView(cluster->View(1));
    for (uint64_t key = 0; key < kKeys; ++key) keys_[table_.BucketOf(0, key)].push_back(key);
  }

  // Pushes the gradients as a position's contribution and reads all rows of the version (SYNC) or
  // the newest ones. Returns the status of the first exchange that failed.
  absl::Status Run(const Gradients* gradients, uint64_t step, uint32_t position, bool pull,
                   uint64_t version) {
    absl::Status first_error;
    rows_.clear();
    for (uint32_t g = 0; g < store_.groups().size(); ++g) {
      const std::vector<uint32_t>& slices = store_.groups()[g].slices;
      std::vector<std::string> payloads;
      std::vector<const void*> push_data;
      std::vector<uint64_t> push_bytes;
      std::vector<RowPull> pulls;
      std::vector<std::vector<float>> values;
      for (const uint32_t slice : slices) {
        payloads.push_back(gradients == nullptr ? "" : PayloadOf(*gradients, slice));
        values.emplace_back(keys_[slice].size() * kDim);
      }
      for (size_t i = 0; i < slices.size(); ++i) {
        push_data.push_back(payloads[i].data());
        push_bytes.push_back(payloads[i].size());
        const std::vector<uint64_t>& keys = keys_[slices[i]];
        pulls.push_back({keys.data(), static_cast<uint32_t>(keys.size()), values[i].data()});
      }
      const std::vector<ContributionKind> kinds(slices.size(), ContributionKind::kRows);
      Exchange exchange;
      exchange.group = g;
      exchange.lineage = 1;
      exchange.push = gradients != nullptr;
      exchange.batch = {static_cast<uint32_t>(step / 2), step % 2 * 2 + position};
      exchange.step = step;
      exchange.position = position;
      exchange.batch_examples = 2;
      exchange.push_kinds = kinds.data();
      exchange.push_data = push_data.data();
      exchange.push_bytes = push_bytes.data();
      exchange.pull = pull;
      exchange.pull_version = version;
      exchange.pull_rows = pulls.data();
      exchange.park = absl::Seconds(20);
      Notification done;
      store_.Start(exchange, [&](const ExchangeResult& result) {
        if (first_error.ok()) first_error = result.status;
        for (const PushOutcome outcome : result.outcomes) outcomes_[outcome] += 1;
        for (const PulledSlice& pulled : result.pulls) EXPECT_TRUE(pulled.has_value);
        done.Notify();
      });
      done.Wait();
      for (size_t i = 0; pull && i < slices.size(); ++i) {
        for (size_t k = 0; k < keys_[slices[i]].size(); ++k) {
          rows_[keys_[slices[i]][k]] = values[i][k * kDim];
        }
      }
    }
    return first_error;
  }

  std::map<uint64_t, float> rows_;  // the first element of each row that was read last
  std::map<PushOutcome, int> outcomes_;

 private:
  std::string PayloadOf(const Gradients& gradients, uint32_t slice) const {
    std::vector<uint64_t> keys;
    std::vector<float> rows;
    for (const auto& [key, gradient] : gradients) {
      if (table_.BucketOf(0, key) != slice) continue;
      keys.push_back(key);
      rows.insert(rows.end(), kDim, gradient);
    }
    std::string payload(RowPayloadBytes(keys.size(), kDim), '\0');
    EncodeRows({keys, rows.data()}, kDim, payload.data());
    return payload;
  }

  RemoteVariableStore::Options Options(PsTestCluster* cluster, uint32_t index, BulkFaults* faults) {
    RemoteVariableStore::Options options;
    options.run_id = "0123456789abcdef0123456789abcdef";
    options.worker_index = index;
    options.incarnation = kTestWorker0 + index;
    options.groups = MakeExchangeGroups(table_, Owners());
    options.connect = [cluster, faults](const std::string& address) {
      std::unique_ptr<BulkChannel> channel = cluster->Connect(address);
      if (faults != nullptr) channel = NewFaultyBulkChannel(std::move(channel), faults);
      return channel;
    };
    return options;
  }

  const SliceTable table_ = Table();
  std::map<uint32_t, std::vector<uint64_t>> keys_;  // by slice
  RemoteVariableStore store_;
};

class TableExchangeTest : public testing::TestWithParam<PsForm> {
 protected:
  PsTestCluster cluster_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Forms, TableExchangeTest, AllPsForms(), PsFormName);

// Plain SGD with learning rate 0.5 on the mean of both batches.
void Apply(const Gradients& first, const Gradients& second, std::map<uint64_t, float>* rows) {
  Gradients sums;
  for (const auto& [key, gradient] : first) sums[key] += 2 * gradient;
  for (const auto& [key, gradient] : second) sums[key] += 2 * gradient;
  for (const auto& [key, sum] : sums) (*rows)[key] -= 0.5f * (sum * 0.25f);
}

TEST_P(TableExchangeTest, RowsHaveTheValuesOfPlainSgdAlsoAfterDamagedAndLostMessages) {
  ASSERT_EQ(cluster_.Load(1, true, LoadOnlyTheTable), absl::OkStatus());
  BulkFaults faults;
  Worker first(&cluster_, 0, &faults);
  Worker second(&cluster_, 1);
  std::map<uint64_t, float> expected;
  for (uint64_t key = 0; key < kKeys; ++key) expected[key] = 0;
  for (uint64_t step = 0; step < 12; ++step) {
    Gradients of_first, of_second;
    for (uint64_t key = 0; key < kKeys; ++key) {
      if ((key + step) % 3 == 0) of_first[key] = static_cast<float>(key + 1);
      if ((key * step) % 5 == 1) of_second[key] = static_cast<float>(step) + 0.5f;
    }
    const bool has_checksums = GetParam() == PsForm::kGrpc;
    faults.drop_replies = step % 4 == 1 ? 2 : 0;
    faults.repeat_requests = step % 4 == 2 ? 2 : 0;
    faults.corrupt_payloads = has_checksums && step % 4 == 3 ? 2 : 0;
    faults.corrupt_replies = has_checksums && step % 4 == 0 ? 2 : 0;
    ASSERT_EQ(second.Run(&of_second, step, 1, false, 0), absl::OkStatus());
    ASSERT_EQ(first.Run(&of_first, step, 0, true, step + 1), absl::OkStatus());
    const std::map<uint64_t, float> before = expected;
    Apply(of_first, of_second, &expected);
    EXPECT_EQ(first.rows_, expected) << "step " << step;
    ASSERT_EQ(second.Run(nullptr, 0, 0, true, step), absl::OkStatus());
    EXPECT_EQ(second.rows_, before) << "the version before step " << step;
  }
  EXPECT_EQ(second.outcomes_[PushOutcome::kAccepted], 12 * static_cast<int>(kBuckets));
  EXPECT_EQ(first.outcomes_[PushOutcome::kCorrupt] + first.outcomes_[PushOutcome::kNonFinite], 0);
}

TEST_P(TableExchangeTest, AsynchronousWorkersReadTheNewestRows) {
  ASSERT_EQ(cluster_.Load(1, false, LoadOnlyTheTable), absl::OkStatus());
  Worker worker(&cluster_, 0);
  const Gradients one = {{3, 1.0f}, {17, 2.0f}};
  ASSERT_EQ(worker.Run(&one, 0, 0, true, 0), absl::OkStatus());
  EXPECT_EQ(worker.rows_[3], -0.5f);
  EXPECT_EQ(worker.rows_[17], -1.0f);
  EXPECT_EQ(worker.rows_[4], 0.0f);
  ASSERT_EQ(worker.Run(&one, 0, 0, true, 0), absl::OkStatus());
  EXPECT_EQ(worker.outcomes_[PushOutcome::kDuplicate], static_cast<int>(kBuckets));
  EXPECT_EQ(worker.rows_[3], -0.5f);
}

}  // namespace
}  // namespace shoal
