// Workers exchange rows of a table with ps tasks, over gRPC, shared memory and inside one process.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "proto/v1/parameter_service.pb.h"
#include "ps/ps_cluster_testing.h"
#include "ps/table_test_worker.h"
#include "runtime/transport/faulty_bulk_channel.h"

namespace shoal {
namespace {

constexpr uint32_t kBuckets = 6;
constexpr int64_t kDim = 3;
constexpr uint64_t kKeys = 40;

using Gradients = std::map<uint64_t, float>;  // Keyed by key; all elements of a row are the same.

// A worker that pushes gradients and reads the rows of all keys.
class Worker {
 public:
  Worker(PsTestCluster* cluster, const TestTable* table, uint32_t index,
         BulkFaults* faults = nullptr)
      : worker_(cluster, table, index, Wrap(faults)) {
    for (uint64_t key = 0; key < kKeys; ++key) keys_.push_back(key);
  }

  // Pushes a position's contribution to a step. With a version it also reads the rows of that
  // version (SYNC), or the newest ones.
  absl::Status Push(const Gradients& gradients, uint64_t step, uint32_t position,
                    std::optional<uint64_t> version = std::nullopt) {
    const TableTestWorker::Gradients rows(gradients.begin(), gradients.end());
    return worker_.Run({&rows, step, position},
                       {version.has_value() ? &keys_ : nullptr, version.value_or(0)});
  }
  absl::Status Read(uint64_t version) { return worker_.Run({}, {&keys_, version}); }

  // Returns the rows that were read last, keyed by key.
  std::map<uint64_t, float> rows() const { return {worker_.rows().begin(), worker_.rows().end()}; }
  int num_outcomes(PushOutcome outcome) { return worker_.num_outcomes(outcome); }

 private:
  static TableTestWorker::WrapChannel Wrap(BulkFaults* faults) {
    if (faults == nullptr) return nullptr;
    return [faults](std::unique_ptr<BulkChannel> channel) {
      return NewFaultyBulkChannel(std::move(channel), faults);
    };
  }

  std::vector<uint64_t> keys_;
  TableTestWorker worker_;
};

class TableExchangeTest : public testing::TestWithParam<PsForm> {
 protected:
  absl::Status Load(bool synchronous) {
    return cluster_.Load(1, synchronous, [this](v1::LoadSlicesRequest* request) {
      table_.ReplaceVariables(request);
    });
  }

  const TestTable table_{kDim, kBuckets};
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
  ASSERT_EQ(Load(/*synchronous=*/true), absl::OkStatus());
  BulkFaults faults;
  Worker first(&cluster_, &table_, 0, &faults);
  Worker second(&cluster_, &table_, 1);
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
    ASSERT_EQ(second.Push(of_second, step, 1), absl::OkStatus());
    ASSERT_EQ(first.Push(of_first, step, 0, step + 1), absl::OkStatus());
    const std::map<uint64_t, float> before = expected;
    Apply(of_first, of_second, &expected);
    EXPECT_EQ(first.rows(), expected) << "step " << step;
    ASSERT_EQ(second.Read(step), absl::OkStatus());
    EXPECT_EQ(second.rows(), before) << "the version before step " << step;
  }
  EXPECT_EQ(second.num_outcomes(PushOutcome::kAccepted), 12 * static_cast<int>(kBuckets));
  EXPECT_EQ(first.num_outcomes(PushOutcome::kCorrupt) + first.num_outcomes(PushOutcome::kNonFinite),
            0);
}

TEST_P(TableExchangeTest, AsynchronousWorkersReadTheNewestRows) {
  ASSERT_EQ(Load(/*synchronous=*/false), absl::OkStatus());
  Worker worker(&cluster_, &table_, 0);
  const Gradients one = {{3, 1.0f}, {17, 2.0f}};
  ASSERT_EQ(worker.Push(one, 0, 0, 0), absl::OkStatus());
  EXPECT_EQ(worker.rows().at(3), -0.5f);
  EXPECT_EQ(worker.rows().at(17), -1.0f);
  EXPECT_EQ(worker.rows().at(4), 0.0f);
  ASSERT_EQ(worker.Push(one, 0, 0, 0), absl::OkStatus());
  EXPECT_EQ(worker.num_outcomes(PushOutcome::kDuplicate), static_cast<int>(kBuckets));
  EXPECT_EQ(worker.rows().at(3), -0.5f);
}

}  // namespace
}  // namespace shoal
