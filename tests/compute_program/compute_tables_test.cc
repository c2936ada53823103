// Compute programs with tables: tests/compute_program/toy_program.cc looks up rows.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/row_payload.h"
#include "tests/compute_program/toy_run.h"
#include "worker/program/program_inputs.h"
#include "worker/replica/asked_rows.h"
#include "worker/replica/replica.h"
#include "worker/replica/row_sets.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A trained program in a replica, whose rows are 10 * key and 1.
class TrainedWithTables {
 public:
  explicit TrainedWithTables(const std::string& mode) : trained_(mode) {
    if (!trained_.status().ok()) return;
    table_.emplace(SliceTable::Create(trained_.program().variables(), 1 << 20).value());
    groups_ = MakeExchangeGroups(*table_, std::vector<uint32_t>(table_->size(), 0));
    replica_ = std::make_unique<Replica>(&trained_.program(), &*table_, &groups_);
  }

  Trained& trained() { return trained_; }
  Replica& replica() { return *replica_; }

  LoadedBatch Begin(int64_t index, uint32_t set) {
    LoadedBatch batch = trained_.Batch(0, index);
    num_pulls = 0;
    replica_->asked_rows()->Begin(batch, set, [this, set](const BatchKeys& keys) {
      ++num_pulls;
      Pull(keys, set);
      return true;
    });
    return batch;
  }

  void Pull(const BatchKeys& keys, uint32_t set) {
    replica_->rows()->Prepare(set, &keys);
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      for (size_t i = 0; groups_[g].buckets && i < groups_[g].slices.size(); ++i) {
        const RowPull& pull = replica_->rows()->pulls(set, g)[i];
        for (uint32_t k = 0; k < pull.num_keys; ++k) {
          pull.values[2 * k] = static_cast<float>(10 * pull.keys[k]);
          pull.values[2 * k + 1] = 1;
        }
      }
    }
  }

  absl::Status Train(int64_t index) {
    const LoadedBatch batch = Begin(index, /*set=*/0);
    gradients.clear();
    is_finite = true;
    return replica_->Train(batch, 0, 0, [this](uint32_t g, bool finite, const BatchReport& report) {
      is_finite = is_finite && finite;
      if (report.examples > 0) loss = report.loss_sum;
      for (size_t i = 0; groups_[g].buckets && i < groups_[g].slices.size(); ++i) {
        RowScratch scratch;
        const std::optional<RowGradients> rows = DecodeRows(
            {ContributionKind::kRows, replica_->push_data(0, g)[i], replica_->push_bytes(0, g)[i]},
            2, &scratch);
        for (size_t k = 0; rows.has_value() && k < rows->keys.size(); ++k) {
          gradients[rows->keys[k]] = rows->gradients[2 * k];
        }
      }
    });
  }

  std::map<uint64_t, float> gradients;
  bool is_finite = true;
  double loss = 0;
  int num_pulls = 0;  // for the last batch

 private:
  Trained trained_;
  std::optional<SliceTable> table_;
  std::vector<ExchangeGroup> groups_;
  std::unique_ptr<Replica> replica_;
};

TEST(ComputeTablesTest, LooksUpTheRowsOfItsBatches) {
  TrainedWithTables with("tables");
  Trained plain("");
  ASSERT_TRUE(with.trained().status().ok()) << with.trained().status();
  ASSERT_TRUE(plain.status().ok());
  const v1::ModelDeclaration& declared = with.trained().inputs().declaration;
  ASSERT_EQ(declared.variables_size(), 5);
  EXPECT_EQ(declared.variables(4).name(), "item");
  EXPECT_EQ(declared.variables(4).table().buckets(), 256u);
  EXPECT_EQ(declared.variables(4).shape(0), 2);
  EXPECT_NE(with.trained().WriteInitialValues(), 0u) << "rows have none";

  BatchResult without;
  const BatchKey next[] = {{0, 1}, {0, 2}};
  for (const int64_t index : {0, 1, 0}) {
    with.trained().program().Expect(0, next);
    ASSERT_EQ(with.Train(index), absl::OkStatus());
    ASSERT_TRUE(plain.Train(0, index, &without).ok());
    EXPECT_TRUE(with.is_finite);
    ASSERT_THAT(with.gradients, SizeIs(7));
    double sum = 0, rows = 0;
    for (const auto& [key, gradient] : with.gradients) {
      EXPECT_LT(key, 7u);
      sum += gradient;
      rows += 24.0 * gradient * 10 * static_cast<double>(key);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_NEAR(with.loss, without.loss_sum + rows, 1e-3);
  }
  LoadedBatch block = with.Begin(0, RowSets::kEvaluationSet);
  block.num_examples = 50;
  BatchResult evaluated;
  ASSERT_TRUE(with.replica().Evaluate(block, 0, &evaluated).ok());
  EXPECT_GT(evaluated.loss_sum, 1000);
}

TEST(ComputeTablesTest, AProgramMayHaveTablesOnly) {
  TrainedWithTables with("tables_only"), usual("tables");
  ASSERT_TRUE(with.trained().status().ok()) << with.trained().status();
  ASSERT_TRUE(usual.trained().status().ok());
  const v1::ModelDeclaration& declared = with.trained().inputs().declaration;
  ASSERT_EQ(declared.variables_size(), 1);
  EXPECT_EQ(declared.variables(0).name(), "item");
  EXPECT_EQ(with.trained().WriteInitialValues(), 0u) << "rows have none";
  for (const int64_t index : {0, 1}) {
    ASSERT_EQ(with.Train(index), absl::OkStatus());
    ASSERT_EQ(usual.Train(index), absl::OkStatus());
    EXPECT_TRUE(with.is_finite);
    EXPECT_EQ(with.gradients, usual.gradients);
    double rows = 0;
    for (const auto& [key, gradient] : with.gradients) {
      rows += 24.0 * gradient * 10 * static_cast<double>(key);
    }
    EXPECT_NEAR(with.loss, rows, 1e-3) << "a bucket carries the report";
  }
  LoadedBatch block = with.Begin(0, RowSets::kEvaluationSet);
  block.num_examples = 50;
  BatchResult evaluated;
  ASSERT_TRUE(with.replica().Evaluate(block, 0, &evaluated).ok());
  EXPECT_GT(evaluated.loss_sum, 1000);
}

TEST(ComputeTablesTest, RowsThatAreNamedAheadAreThere) {
  TrainedWithTables with("tables_ahead"), usual("tables");
  ASSERT_TRUE(with.trained().status().ok()) << with.trained().status();
  ASSERT_TRUE(usual.trained().status().ok());
  with.trained().WriteInitialValues();
  usual.trained().WriteInitialValues();
  const AskedRows& asked = *with.replica().asked_rows();
  const BatchKey next[] = {{0, 1}, {0, 2}};
  with.trained().program().Expect(0, next);
  ASSERT_EQ(with.Train(0), absl::OkStatus());
  EXPECT_EQ(with.num_pulls, 1);
  ASSERT_NE(asked.KeysAhead({0, 1}), nullptr);
  EXPECT_EQ(asked.KeysAhead({0, 2}), nullptr);
  EXPECT_EQ(asked.KeysAhead({1, 1}), nullptr);
  with.Pull(*asked.KeysAhead({0, 1}), /*set=*/0);
  ASSERT_EQ(with.Train(1), absl::OkStatus());
  EXPECT_EQ(with.num_pulls, 0);
  ASSERT_EQ(usual.Train(1), absl::OkStatus());
  EXPECT_EQ(usual.num_pulls, 1);
  EXPECT_EQ(with.gradients, usual.gradients);
  EXPECT_EQ(with.loss, usual.loss);
}

TEST(ComputeTablesTest, AGradientOfARowThatIsNotFiniteIsAResult) {
  TrainedWithTables with("tables_are_not_finite");
  ASSERT_TRUE(with.trained().status().ok()) << with.trained().status();
  ASSERT_EQ(with.Train(0), absl::OkStatus());
  EXPECT_FALSE(with.is_finite);
}

TEST(ComputeTablesTest, LookUpsThatCannotBeFailTheirWorker) {
  const std::pair<const char*, const char*> cases[] = {
      {"tables_fall", "of table item after key 9; keys must rise"},
      {"tables_unknown", "of table 1, but it has only 1"},
      {"tables_finish_first", "a LOOK_UP after a FINAL"},
  };
  for (const auto& [mode, why] : cases) {
    TrainedWithTables with(mode);
    ASSERT_TRUE(with.trained().status().ok()) << mode << " " << with.trained().status();
    const absl::Status status = with.Train(0);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << mode << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << mode;
  }
}

TEST(ComputeTablesTest, TheRunFileHasTheLastWordOnItsTables) {
  const auto with = [](const std::string& table) {
    v1::RunConfig run = RunOf("tables");
    v1::TableConfig& entry = *run.add_table();
    entry.set_name(table);
    entry.set_dim(table == "item" ? 2 : 3);
    entry.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.25);
    entry.mutable_expiry()->set_idle_updates(9);
    return AskProgram(run, false);
  };
  const absl::StatusOr<v1::WorkerProgram> answer = with("item");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->model().variables(4).table().idle_updates(), 9u);
  EXPECT_EQ(answer->model().variables(4).table().optimizer().learning_rate(), 0.25);
  EXPECT_THAT(std::string(with("i*").status().message()),
              HasSubstr("item has rows of 2 numbers in toy_program, but `table` in the run file "
                        "says dim: 3"));
  EXPECT_THAT(std::string(with("user").status().message()),
              HasSubstr("settings of \"user\", but toy_program declares no such table"));
}

TEST(ComputeTablesTest, AnEntryOfTheRunFileKeepsTheSettingsThatItLeavesUnset) {
  v1::RunConfig run = RunOf("tables_of_adam");
  v1::TableConfig& entry = *run.add_table();
  entry.set_name("item");
  entry.set_dim(2);
  entry.set_buckets(512);
  const absl::StatusOr<v1::WorkerProgram> answer = AskProgram(run, false);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const v1::TableSpec& item = answer->model().variables(4).table();
  EXPECT_EQ(item.buckets(), 512u);
  EXPECT_EQ(item.min_count(), 3u);
  EXPECT_TRUE(item.optimizer().has_adam());
  EXPECT_EQ(item.optimizer().learning_rate(), 0.5);
}

}  // namespace
}  // namespace shoal
