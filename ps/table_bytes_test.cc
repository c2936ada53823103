// The bytes that a step with a table sends and receives, and a batch whose rows exceed a message.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "proto/v1/parameter_service.pb.h"
#include "ps/counted_traffic_testing.h"
#include "ps/ps_cluster_testing.h"
#include "ps/table_test_worker.h"
#include "runtime/transport/bulk.h"

namespace shoal {
namespace {

constexpr uint32_t kBuckets = 256;

class TableBytesTest : public testing::TestWithParam<PsForm> {
 protected:
  void Load(int64_t dim) {
    table_ = std::make_unique<TestTable>(dim, kBuckets);
    ASSERT_EQ(
        cluster_.Load(
            1, true, [this](v1::LoadSlicesRequest* request) { table_->ReplaceVariables(request); }),
        absl::OkStatus());
    worker_ = std::make_unique<TableTestWorker>(
        &cluster_, table_.get(), 0, [this](std::unique_ptr<BulkChannel> channel) {
          return std::make_unique<CountingChannel>(std::move(channel), &traffic_);
        });
  }

  // Pushes a gradient of ones for the keys 0 to num_keys - 1 as both contributions of a step, and
  // reads the rows of the version that it makes with the second. Before, no key was touched.
  void Step(uint64_t step, uint64_t num_keys) {
    std::vector<uint64_t> keys;
    TableTestWorker::Gradients ones;
    for (uint64_t key = 0; key < num_keys; ++key) {
      keys.push_back(key);
      ones.emplace_back(key, 1.0f);
    }
    ASSERT_EQ(worker_->Run({&ones, step, 0}, {}), absl::OkStatus());
    ASSERT_EQ(worker_->Run({&ones, step, 1}, {&keys, step + 1}), absl::OkStatus());
    num_pushes_ += 2 * static_cast<int>(kBuckets);
    EXPECT_EQ(worker_->num_outcomes(PushOutcome::kAccepted), num_pushes_);
    EXPECT_EQ(worker_->rows().size(), num_keys);
    for (const auto& [key, value] : worker_->rows()) ASSERT_EQ(value, -0.5f) << "key " << key;
  }

  PsTestCluster cluster_{GetParam()};
  Traffic traffic_;
  std::unique_ptr<TestTable> table_;
  std::unique_ptr<TableTestWorker> worker_;
  int num_pushes_ = 0;
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
