// Runs that start with the values and the state of another (init_state).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/variable.pb.h"
#include "ps/snapshot_testing.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// Adagrad's accumulators, the counts of keys that are not admitted, and the time that is left until
// a row expires: a run that takes them does in each step what the other would have done.
TEST(ContinuedRunTest, AnotherRunWithTheStateContinuesAsIfNothingHadHappened) {
  std::vector<v1::VariableSpec> variables = TestVariables();
  variables[1].mutable_table()->mutable_optimizer()->mutable_adagrad();
  FaultyFileSystem disk;
  Cluster run(&disk, 3, variables);
  run.Start(1);
  run.TrainAndCut(42);
  ASSERT_OK_AND_ASSIGN(const std::string name, run.Save());
  for (const uint32_t num_ps : {1, 4}) {
    for (const uint64_t steps : {1, 4, 12}) {
      SCOPED_TRACE(testing::Message() << num_ps << " ps, " << steps << " steps");
      Cluster whole(&disk, 3, variables);
      ASSERT_OK(whole.Restore(2, name));
      whole.TrainAndCut(42 + steps);
      Cluster continued(&disk, num_ps, variables);
      ASSERT_OK(continued.StartFrom(3, std::string(kRoot) + "/" + name, /*with_state=*/true, 42));
      continued.TrainAndCut(steps);
      size_t before = 0;
      for (const auto& [slice, rows] : continued.rows()) {
        SCOPED_TRACE(slice);
        const BucketRows& expected = whole.rows().at(slice);
        EXPECT_EQ(rows.keys, expected.keys);
        EXPECT_EQ(rows.rows, expected.rows);
        EXPECT_EQ(rows.counted_keys, expected.counted_keys);
        EXPECT_EQ(rows.counts, expected.counts);
        const auto ages_of = [](const std::vector<uint32_t>& touched, uint64_t version) {
          std::vector<uint64_t> ages;
          for (const uint32_t one : touched) ages.push_back(UpdatesSinceTouched(one, version));
          return ages;
        };
        EXPECT_EQ(ages_of(rows.touched, steps), ages_of(expected.touched, 42 + steps));
        EXPECT_EQ(ages_of(rows.counted_touched, steps),
                  ages_of(expected.counted_touched, 42 + steps));
        before += static_cast<size_t>(
            std::count_if(rows.touched.begin(), rows.touched.end(), IsTouchedBefore));
      }
      EXPECT_GT(before, 0u);
    }
  }
}

// A row that was touched before the run is in the base, not in each delta.
TEST(ContinuedRunTest, CheckpointsOfARunWithTheStateOfAnotherHaveTheChangesAlone) {
  FaultyFileSystem disk;
  Cluster run(&disk, 2);
  run.Start(1);
  run.TrainAndCut(42);
  ASSERT_OK_AND_ASSIGN(const std::string name, run.Save());
  Cluster continued(&disk, 2);
  ASSERT_OK(continued.StartFrom(2, std::string(kRoot) + "/" + name, /*with_state=*/true, 42));
  std::vector<std::string> names;
  for (const uint64_t version : {1, 2, 3}) {
    continued.TrainAndCut(version);
    ASSERT_OK_AND_ASSIGN(names.emplace_back(), continued.Save());
    continued.ExpectRows(names.back(), continued.rows());
  }
  EXPECT_THAT(BasesOf(disk, names[1]), ElementsAre(names[0]));
  EXPECT_THAT(BasesOf(disk, names[2]), ElementsAre(names[0], names[1]));
  Cluster resumed(&disk, 1);
  ASSERT_OK(resumed.Restore(3, names[2]));
  resumed.ExpectRows(names[2], continued.rows());
}

}  // namespace
}  // namespace shoal
