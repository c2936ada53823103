#include "runtime/variables/variable_updater.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/variable.pb.h"
#include "runtime/variables/slice_values.h"

namespace shoal {
namespace {

v1::VariableSpec Spec(v1::UpdateKind kind) {
  v1::VariableSpec spec;
  spec.set_name("v");
  spec.set_update(kind);
  return spec;
}

class VariableUpdaterTest : public testing::Test {
 protected:
  UpdateSettings settings_;
  std::unique_ptr<UpdateRule> rule_ = *UpdateRule::Create({});
};

TEST_F(VariableUpdaterTest, KeepsAnAverageOfTheValueBesideTheRulesSlots) {
  settings_.moving_average_decay = 0.5;
  settings_.optimizer.kind = OptimizerKind::kMomentum;
  rule_ = *UpdateRule::Create(settings_.optimizer);
  const VariableUpdater updater =
      *VariableUpdater::Create(Spec(v1::UPDATE_KIND_OPTIMIZER), settings_, rule_.get());
  ASSERT_EQ(updater.num_slots(), 2u);
  EXPECT_EQ(updater.slots()[1].name, "average");
  SliceValues values(updater, 20);
  values.Restart();
  values.mutable_value()[19] = 8;
  values.mutable_slot(1)[19] = 8;
  const std::vector<float> gradient(20, 2);
  values.Apply({0, 1.0f, 1.0f, gradient.data(), true});
  EXPECT_EQ(values.value()->data()[19], 6);
  EXPECT_EQ(values.mutable_slot(0)[19], 2);
  EXPECT_EQ(values.mutable_slot(1)[19], 7);
  EXPECT_EQ(values.previous_value()->data()[19], 8);
}

TEST_F(VariableUpdaterTest, OneNumberThatIsNotFiniteAnywhereRefusesTheUpdate) {
  settings_.optimizer.kind = OptimizerKind::kMomentum;
  rule_ = *UpdateRule::Create(settings_.optimizer);
  const VariableUpdater updater =
      *VariableUpdater::Create(Spec(v1::UPDATE_KIND_OPTIMIZER), settings_, rule_.get());
  constexpr size_t kElements = 40000;
  std::vector<float> gradient(kElements, 1);
  for (const size_t bad : {size_t{0}, size_t{16383}, size_t{16384}, kElements - 1}) {
    SliceValues values(updater, kElements);
    values.Restart();
    for (float& value : values.mutable_value()) value = 8;
    gradient[bad] = 3e38f;  // times the learning rate it is too large
    EXPECT_FALSE(values.Apply({0, 2.0f, 1.0f, gradient.data(), true})) << bad;
    EXPECT_EQ(values.value()->data()[bad], 8);
    gradient[bad] = 1;
    values.Restart();
    EXPECT_TRUE(values.Apply({0, 2.0f, 1.0f, gradient.data(), true}));
  }
}

TEST_F(VariableUpdaterTest, ASlotThatIsNotFiniteRefusesTheUpdateToo) {
  settings_.optimizer.kind = OptimizerKind::kAdam;
  rule_ = *UpdateRule::Create(settings_.optimizer);
  const VariableUpdater updater =
      *VariableUpdater::Create(Spec(v1::UPDATE_KIND_OPTIMIZER), settings_, rule_.get());
  SliceValues values(updater, 1);
  values.Restart();
  const float gradient = 1e30f;  // its square is too large, the step itself is 0
  EXPECT_FALSE(values.Apply({0, 0.001f, 1.0f, &gradient, true}));
}

TEST_F(VariableUpdaterTest, ClipsEachElement) {
  settings_.clip_by_value = 0.5;
  const VariableUpdater updater =
      *VariableUpdater::Create(Spec(v1::UPDATE_KIND_OPTIMIZER), settings_, rule_.get());
  SliceValues values(updater, 2);
  values.Restart();
  values.mutable_value()[0] = values.mutable_value()[1] = 0;
  const float gradient[] = {4, -0.25f};
  values.Apply({0, 1.0f, 1.0f, gradient, true});
  EXPECT_EQ(values.value()->data()[0], -0.5f);
  EXPECT_EQ(values.value()->data()[1], 0.25f);
}

TEST_F(VariableUpdaterTest, SlotsOfASnapshotAreLeftAlone) {
  settings_.optimizer.kind = OptimizerKind::kMomentum;
  rule_ = *UpdateRule::Create(settings_.optimizer);
  const VariableUpdater updater =
      *VariableUpdater::Create(Spec(v1::UPDATE_KIND_OPTIMIZER), settings_, rule_.get());
  SliceValues values(updater, 1);
  values.Restart();
  values.mutable_value()[0] = 0;
  const float gradient[] = {1};
  values.Apply({0, 1.0f, 1.0f, gradient, true});
  const VersionBufferRef snapshot = values.slots();
  values.Apply({1, 1.0f, 1.0f, gradient, true});
  EXPECT_EQ(snapshot->data()[0], 1);
  EXPECT_NE(values.slots().get(), snapshot.get());
}

TEST_F(VariableUpdaterTest, SettingsOutOfRangeAreRefusedByName) {
  const auto refusal = [this] {
    return std::string(
        VariableUpdater::Create(Spec(v1::UPDATE_KIND_OPTIMIZER), settings_, rule_.get())
            .status()
            .message());
  };
  settings_.clip_by_value = -1;
  EXPECT_THAT(refusal(), testing::HasSubstr("clip_by_value is -1"));
  settings_.clip_by_value = 0;
  settings_.clip_by_global_norm = std::numeric_limits<double>::infinity();
  EXPECT_THAT(refusal(), testing::HasSubstr("clip_by_global_norm"));
  settings_.clip_by_global_norm = 0;
  settings_.moving_average_decay = 1;
  EXPECT_THAT(refusal(), testing::HasSubstr("moving_average_decay is 1"));
}

}  // namespace
}  // namespace shoal
