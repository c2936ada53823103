// Runs that continue the training of another (init_state).
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_testing.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kStep = 7;

// The state of a key: how many updates before version 0 it was touched, and its row or its count.
struct Known {
  uint64_t idle = 0;
  std::vector<float> row;
  uint32_t count = 0;
  bool operator==(const Known& other) const {
    return idle == other.idle && row == other.row && count == other.count;
  }
};

class InitialStateTest : public ::testing::Test {
 protected:
  InitialStateTest() {
    saved_.step = kStep;
    saved_.slots = {"m"};
    saved_.with_table = true;
    saved_.optimizer = "momentum";
    EXPECT_OK(SaveTestRun(disk_, "other/checkpoints", saved_));
    run_.set_init_from("other");
    run_.set_init_state(true);
    run_.mutable_optimizer()->mutable_momentum();
    variables_ = TestVariables();
    variables_.push_back(TestTable());
  }

  absl::StatusOr<std::unique_ptr<InitialModel>> Open() {
    table_ = std::make_unique<SliceTable>(SliceTable::Create(variables_, kTestSliceBytes).value());
    return InitialModel::Open(disk_, run_, variables_, *table_,
                              [this](uint32_t) { return slots_; });
  }
  std::string Error() { return std::string(Open().status().message()); }

  // Returns all keys of the table, whose buckets are filled by so many ps.
  std::map<uint64_t, Known> FillTable(uint32_t num_ps) {
    std::map<uint64_t, Known> known;
    for (uint32_t ps = 0; ps < num_ps; ++ps) {
      auto model = Open();
      EXPECT_OK(model.status());
      if (!model.ok()) return known;
      for (uint32_t slice = table_->first_slice_of(3) + ps; slice < table_->size();
           slice += num_ps) {
        SliceSource::BucketContents contents;
        contents.initial_slots = {9, 9};
        EXPECT_OK((*model)->FillBucket(slice, &contents));
        const BucketRows& rows = contents.rows;
        EXPECT_TRUE(std::is_sorted(rows.keys.begin(), rows.keys.end()));
        EXPECT_TRUE(std::is_sorted(rows.counted_keys.begin(), rows.counted_keys.end()));
        EXPECT_EQ(rows.rows.size(), 4 * rows.keys.size());
        for (size_t r = 0; r < rows.keys.size(); ++r) {
          EXPECT_EQ(table_->BucketOf(3, rows.keys[r]), slice);
          const auto row = rows.rows.begin() + static_cast<ptrdiff_t>(4 * r);
          known[rows.keys[r]] = {UpdatesSinceTouched(rows.touched[r], 0), {row, row + 4}, 0};
        }
        for (size_t c = 0; c < rows.counted_keys.size(); ++c) {
          EXPECT_EQ(table_->BucketOf(3, rows.counted_keys[c]), slice);
          known[rows.counted_keys[c]] = {
              UpdatesSinceTouched(rows.counted_touched[c], 0), {}, rows.counts[c]};
        }
      }
    }
    return known;
  }

  FaultyFileSystem disk_;
  SaveOptions saved_;
  v1::RunConfig run_;
  std::vector<v1::VariableSpec> variables_;
  std::vector<std::string> slots_ = {"m"};
  std::unique_ptr<SliceTable> table_;
};

TEST_F(InitialStateTest, ATableHasTheSlotsCountsAndAgesInAnyBucketsOnAnyPs) {
  std::map<uint64_t, Known> expected;
  for (uint64_t key = 0; key < 40; ++key) {
    if (key == kStep) continue;
    const auto value = static_cast<float>(10 * key + kStep);
    expected[key] = {
        kStep - std::min(key + 1, kStep), {value, value + 1, value + 0.5f, value + 1.5f}, 0};
  }
  expected[50] = {kStep - kStep / 2, {}, 1};
  for (const uint32_t buckets : {1, 3, 4, 7, 100}) {
    SCOPED_TRACE(buckets);
    variables_[3].mutable_table()->set_buckets(buckets);
    for (const uint32_t num_ps : {1, 3}) EXPECT_EQ(FillTable(num_ps), expected) << num_ps;
  }
}

TEST_F(InitialStateTest, KeysThatHaveExpiredByTheSettingsOfTheRunAreLeftOut) {
  const auto expired = [this](uint32_t idle_updates) {
    variables_[3].mutable_table()->set_idle_updates(idle_updates);
    const std::map<uint64_t, Known> known = FillTable(1);
    std::vector<uint64_t> keys;
    for (const uint64_t key : {0, 1, 2, 3, 39, 50}) {
      if (known.count(key) == 0) keys.push_back(key);
    }
    return keys;
  };
  EXPECT_THAT(expired(6), IsEmpty());
  EXPECT_THAT(expired(4), ElementsAre(0, 1));
  EXPECT_THAT(expired(3), ElementsAre(0, 1, 2, 50));
}

TEST_F(InitialStateTest, WithoutAdmissionThereAreNoCounts) {
  variables_[3].mutable_table()->set_min_count(1);
  EXPECT_EQ(FillTable(1).count(50), 0u);
}

TEST_F(InitialStateTest, DenseVariablesHaveTheirSlotsAndAnAverageThatIsMissingFollowsTheValue) {
  slots_ = {"m", kAverageSlot};
  ASSERT_OK_AND_ASSIGN(const auto model, Open());
  for (uint32_t slice = 0; slice < table_->first_slice_of(3); ++slice) {
    const Slice& cut = (*table_)[slice];
    std::vector<float> value(cut.num_elements), m(cut.num_elements), average(cut.num_elements);
    SliceSource::Contents contents;
    contents.value = absl::MakeSpan(value);
    contents.slots = {absl::MakeSpan(m), absl::MakeSpan(average)};
    ASSERT_OK(model->Fill(slice, &contents));
    EXPECT_TRUE(contents.slots_follow_value);
    EXPECT_EQ(contents.version, 0u);
    for (uint64_t i = 0; i < cut.num_elements; ++i) {
      EXPECT_EQ(value[i], TestValue(cut.variable, cut.first_element + i, "", kStep));
      EXPECT_EQ(m[i], TestValue(cut.variable, cut.first_element + i, "m", kStep));
    }
  }
}

TEST_F(InitialStateTest, AnotherRuleIsRefusedWithBothAndTheRemedy) {
  variables_[3].mutable_table()->mutable_optimizer()->mutable_ftrl();
  EXPECT_THAT(Error(),
              HasSubstr("init_state: table item has the rule ftrl, and other/checkpoints/"));
  EXPECT_THAT(Error(), HasSubstr(" has the slots of momentum for item; use momentum, or drop "
                                 "init_state to take the values alone"));
  variables_[3] = TestTable();
  variables_[3].mutable_table()->set_rowwise(true);
  EXPECT_THAT(Error(), HasSubstr("has the rule rowwise_momentum, and"));
  variables_[3] = TestTable();
  run_.mutable_optimizer()->mutable_adam();
  EXPECT_THAT(Error(), HasSubstr("init_state: variable dense/w has the rule adam, and "));
  // A frozen variable has no slots.
  for (uint32_t v = 0; v < 3; ++v) variables_[v].set_update(v1::UPDATE_KIND_NONE);
  variables_[3].mutable_table()->mutable_optimizer()->mutable_momentum();
  EXPECT_EQ(Error(), "");
}

TEST_F(InitialStateTest, AFileOfValuesIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(disk_, "other/checkpoints/" + TestName(saved_).ToString(),
                                        Checkpoint::Verify::kIndex));
  ASSERT_OK(ExportModel(disk_, *checkpoint, "other", "m.safetensors"));
  run_.set_init_from("other/m.safetensors");
  EXPECT_THAT(Error(), HasSubstr("init_state: other/m.safetensors has values alone; give "
                                 "--init_from the directory of a run, or drop init_state"));
}

TEST(BucketRowsTest, ARowKnowsHowLongBeforeTheRunItWasTouched) {
  EXPECT_EQ(TouchedBefore(0), 0u);
  for (const uint64_t updates : {uint64_t{1}, uint64_t{1000}, uint64_t{kMostUpdatesBefore}}) {
    const uint32_t touched = TouchedBefore(updates);
    EXPECT_TRUE(IsTouchedBefore(touched));
    EXPECT_EQ(UpdatesSinceTouched(touched, 0), updates);
    EXPECT_EQ(UpdatesSinceTouched(touched, 20), updates + 20);
    EXPECT_FALSE(IsTouchedAfter(touched, 0));
  }
  EXPECT_EQ(UpdatesSinceTouched(TouchedBefore(UINT64_MAX), 0), kMostUpdatesBefore);
  EXPECT_FALSE(IsTouchedBefore(kMostTableUpdates));
  // The index has no entry for it.
  EXPECT_FALSE(IsTouchedBefore(UINT32_MAX));
  EXPECT_TRUE(IsTouchedAfter(UINT32_MAX, kMostTableUpdates));
  EXPECT_TRUE(IsExpired(TouchedBefore(3), 2, 4));
  EXPECT_FALSE(IsExpired(TouchedBefore(3), 1, 4));
  EXPECT_FALSE(IsExpired(TouchedBefore(3), 1000, 0));
  EXPECT_FALSE(IsExpired(/*touched=*/9, /*version=*/8, 1));
}

}  // namespace
}  // namespace shoal
