// Tests that a click model with tables gives the same bytes of variables and rows for any number of
// tasks, and counts every batch once.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/observability/summary.h"
#include "tests/cluster/trained_run.h"

namespace shoal {
namespace {

using ::testing::SizeIs;

// Two features share a table; one of them has lists of ids.
constexpr char kRun[] = R"pb(
  name: "clicks"
  model {
    feature { column: "c3" table: "shared" }
    feature { column: "c4" table: "shared" pooling: POOLING_MEAN }
    feature { column: "c7" table: "own" }
    layer { dense { units: 4 activation: ACTIVATION_KIND_RELU } }
    layer { interaction { dot {} } }
    layer { dense { units: 1 } }
    loss: "sigmoid_cross_entropy"
  }
  table {
    name: "shared"
    dim: 4
    optimizer { rowwise_adagrad { learning_rate: 0.1 } }
    buckets: 8
  }
  table { name: "*" dim: 4 buckets: 4 }
  data {
    format: FORMAT_CLICKS_SYNTHETIC
    train_examples: 230
    test_examples: 60
    evaluation_block: 25
    clicks { scale: 0.001 multi_hot: 3 }
  }
  optimizer {
    learning_rate: 0.01
    adam {}
  }
  sync { replicas_to_aggregate: 3 }
  cluster { slice_bytes: 256 }
  checkpoint { save_every: 7 }
  batch_size: 16
  num_epochs: 3
  eval_every: 5
)pb";

class TableTrainingTest : public ::testing::Test {
 protected:
  v1::RunConfig Config(const std::string& extra = "") { return NewRun(kRun, extra, files_.get()); }

  void Train(const v1::RunConfig& run, uint32_t num_ps, uint32_t num_workers) {
    EXPECT_OK(files_->MakeDirectory(run.out()));
    EXPECT_OK(TrainInProcess(run, num_ps, num_workers, files_.get()));
  }

  std::vector<double> Losses(const v1::RunConfig& run) { return RecordedLosses(files_.get(), run); }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
};

TEST_F(TableTrainingTest, AnyNumberOfTasksGivesTheSameBytes) {
  std::vector<double> losses;
  Values values;
  for (const auto& [num_ps, num_workers] :
       std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {2, 2}, {3, 4}}) {
    const v1::RunConfig run = Config();
    Train(run, num_ps, num_workers);
    if (losses.empty()) {
      losses = Losses(run);
      values = NewestValues(files_.get(), run);
      ASSERT_THAT(losses, SizeIs(3 * 5 + 1));
      EXPECT_LT(losses[14], losses[0]);
    }
    EXPECT_EQ(Losses(run), losses) << num_ps << " ps, " << num_workers << " workers";
    EXPECT_EQ(NewestValues(files_.get(), run), values);
  }
}

TEST_F(TableTrainingTest, AStoppedRunResumesToTheSameBytes) {
  const v1::RunConfig whole = Config();
  Train(whole, 2, 2);
  v1::RunConfig run = Config("max_steps: 9");
  Train(run, 2, 2);
  run.clear_max_steps();
  Train(run, 3, 1);
  EXPECT_EQ(Losses(run).back(), Losses(whole).back());
  EXPECT_EQ(NewestValues(files_.get(), run), NewestValues(files_.get(), whole));
}

TEST_F(TableTrainingTest, AsynchronouslyEveryExampleCountsOnceToo) {
  const v1::RunConfig run = Config("sync { sync_replicas: false }");
  Train(run, 2, 3);
  const absl::StatusOr<Summary> summary = ReadSummary(files_.get(), run.out());
  ASSERT_OK(summary.status());
  EXPECT_EQ(summary->steps, 3u * 15u);
  EXPECT_EQ(summary->examples, 3u * 230u);
  EXPECT_EQ(summary->skipped_batches, 0u);
}

TEST_F(TableTrainingTest, SeveralClonesShareTheRowsOfABatch) {
  v1::RunConfig run = Config("batch_size: 8 deployment { num_clones: 2 }");
  Train(run, 1, 2);
  EXPECT_THAT(Losses(run), SizeIs(3 * 5 + 1));
}

}  // namespace
}  // namespace shoal
