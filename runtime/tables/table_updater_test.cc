#include "runtime/tables/table_updater.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "ml/optim/optimizer_options.h"
#include "ml/tensor/initializer.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TableOptions Options(OptimizerKind kind) {
  TableOptions options;
  options.name = "item";
  options.dim = 5;
  options.optimizer.kind = kind;
  return options;
}

TEST(TableUpdaterTest, AnImpossibleTableIsRefusedByItsField) {
  TableOptions options = Options(OptimizerKind::kSgd);
  options.dim = 0;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("table \"item\": dim")));
  options = Options(OptimizerKind::kMomentum);
  EXPECT_THAT(TableUpdater::Create(options, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                                         HasSubstr("optimizer: a table can use")));
  options = Options(OptimizerKind::kSgd);
  options.rowwise = true;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only adagrad")));
  options = Options(OptimizerKind::kSgd);
  options.l2 = -1;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("l2")));
  options = Options(OptimizerKind::kSgd);
  options.min_count = (1 << 30) + 1;
  EXPECT_THAT(TableUpdater::Create(options, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("min_count")));
}

// The formula gives a = 0.1 + (3^2 + 4^2) / 2 = 12.6 and v = 1 - 0.1 * g / sqrt(12.6).
TEST(TableUpdaterTest, RowwiseAdagradHasOneAccumulator) {
  TableOptions options;
  options.name = "t";
  options.dim = 2;
  options.optimizer.kind = OptimizerKind::kAdagrad;
  options.rowwise = true;
  options.initializer = ConstantInitializer(1);
  const auto updater = TableUpdater::Create(options, 1).value();
  ASSERT_EQ(updater->row_floats(), 3u);
  std::vector<float> row(3);
  updater->FillInitialRow(9, row.data());
  EXPECT_THAT(row, ElementsAre(1, 1, 0.1f));
  TableUpdater::Scratch scratch(*updater);
  const float gradients[] = {3, 4};
  float* const floats = row.data();
  TableUpdater::Update update;
  update.learning_rate = 0.1f;
  ASSERT_TRUE(updater->Apply(update, gradients, {&floats, 1}, &scratch));
  EXPECT_FLOAT_EQ(row[0], 1 - 0.1f * 3 / std::sqrt(12.6f));
  EXPECT_FLOAT_EQ(row[1], 1 - 0.1f * 4 / std::sqrt(12.6f));
  EXPECT_FLOAT_EQ(row[2], 12.6f);
}

}  // namespace
}  // namespace shoal
