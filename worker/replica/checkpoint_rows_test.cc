#include "worker/replica/checkpoint_rows.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/batch_plan.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/data/prefetcher.h"
#include "ml/data/ragged_rows.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_testing.h"

namespace shoal {
namespace {

constexpr uint64_t kStep = 7;
constexpr uint32_t kTable = 3;  // the variables before it are those of TestVariables

// A data set of one ragged field: example i has i % 4 keys, of 0 to 59.
std::unique_ptr<Dataset> ManyKeys(int64_t examples) {
  RaggedRows rows;
  for (int64_t i = 0; i < examples; ++i) {
    for (int64_t k = 0; k < i % 4; ++k) rows.AddKey((i * 7 + k * 11) % 60);
    rows.EndExample();
  }
  std::vector<InMemoryDataset::Field> fields(1);
  fields[0].name = "clicked";
  fields[0].ragged = std::move(rows);
  return InMemoryDataset::Create(std::move(fields)).value();
}

BatchPlan PlanOf(const Dataset& data, int64_t batch_size) {
  BatchPlanOptions options;
  options.num_examples = data.size();
  options.batch_size = batch_size;
  options.shuffle = false;
  return BatchPlan::Create(options).value();
}

class CheckpointRowsTest : public ::testing::Test {
 protected:
  CheckpointRowsTest() {
    std::string pattern = ::testing::TempDir() + "/rows.XXXXXX";
    root_ = mkdtemp(pattern.data());
    SaveOptions options;
    options.step = kStep;
    options.with_table = true;
    EXPECT_OK(SaveTestRun(*files_, root_, options));
    checkpoint_ = Checkpoint::Open(*files_, root_ + "/" + TestName(options).ToString(),
                                   Checkpoint::Verify::kIndex)
                      .value();
    rows_ = CheckpointRows::Create(checkpoint_.get(), {{kTable, {{0, true}}}}).value();
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string root_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointRows> rows_;
};

// The rows of the test table are {10 * key + step, 10 * key + step + 1}; keys from 40 on, and the
// key that equals the step, are not stored, so they have the initial value, which is 0.
TEST_F(CheckpointRowsTest, EveryBatchHasTheRowsOfItsKeys) {
  const std::unique_ptr<Dataset> data = ManyKeys(3000);
  const BatchPlan plan = PlanOf(*data, 100);
  ASSERT_OK(rows_->ReadFor(*data, plan, /*threads=*/2, [] { return false; }));
  PrefetcherOptions options;
  options.make_digest = [this] { return rows_->MakeDigest(); };
  Prefetcher batches(*data, plan, options);
  int64_t num_stored = 0, num_initial = 0;
  for (const int64_t index : {int64_t{0}, int64_t{29}, int64_t{3}}) {
    const LoadedBatch* const batch = batches.Take(0, index).value();
    const absl::Span<const TableRows> rows = rows_->GetRows(GetKeys(*batch));
    ASSERT_EQ(rows.size(), 1u);
    const TableKeys& keys = *rows[0].keys;
    EXPECT_GE(rows[0].capacity, static_cast<int64_t>(keys.keys.size()));
    const absl::Span<const int64_t> in_batch = batch->ragged(0).keys();
    ASSERT_EQ(keys.places[0].size(), in_batch.size());
    for (size_t i = 0; i < in_batch.size(); ++i) {
      const auto key = static_cast<uint64_t>(in_batch[i]);
      const float* const row = rows[0].values + 2 * keys.places[0][i];
      const bool is_stored = key < 40 && key != kStep;
      ++(is_stored ? num_stored : num_initial);
      EXPECT_EQ(row[0], is_stored ? static_cast<float>(10 * key + kStep) : 0) << key;
      EXPECT_EQ(row[1], is_stored ? static_cast<float>(10 * key + kStep + 1) : 0) << key;
    }
    batches.Release(batch);
  }
  EXPECT_GT(num_stored, 100);
  EXPECT_GT(num_initial, 50);
}

TEST_F(CheckpointRowsTest, AnExampleWithoutKeysNeedsNoRow) {
  const std::unique_ptr<Dataset> data = ManyKeys(1);
  const BatchPlan plan = PlanOf(*data, 1);
  ASSERT_OK(rows_->ReadFor(*data, plan, 1, [] { return false; }));
  PrefetcherOptions options;
  options.make_digest = [this] { return rows_->MakeDigest(); };
  Prefetcher batches(*data, plan, options);
  const LoadedBatch* const batch = batches.Take(0, 0).value();
  const absl::Span<const TableRows> rows = rows_->GetRows(GetKeys(*batch));
  EXPECT_TRUE(rows[0].keys->keys.empty());
  EXPECT_GE(rows[0].capacity, 1);
  EXPECT_NE(rows[0].values, nullptr);
  batches.Release(batch);
}

TEST_F(CheckpointRowsTest, AStopEndsTheReading) {
  const std::unique_ptr<Dataset> data = ManyKeys(100);
  const absl::Status status = rows_->ReadFor(*data, PlanOf(*data, 10), 1, [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

}  // namespace
}  // namespace shoal
