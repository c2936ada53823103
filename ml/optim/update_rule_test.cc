#include "ml/optim/update_rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// A rule under test, and what it must reach from value {1, -2, 0.5} after the three gradients below
// with a learning rate of 0.1. Numbers: the formulas of the header evaluated in double elsewhere.
struct Case {
  std::string name;
  OptimizerOptions options;
  std::vector<float> value;
  std::vector<std::vector<float>> slots;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr float kGradients[3][3] = {{0.5, -0.25, 0.0}, {0.1, 1.5, -2.0}, {-0.3, 0.75, 0.001}};

OptimizerOptions Options(OptimizerKind kind) {
  OptimizerOptions options;
  options.kind = kind;
  return options;
}

OptimizerOptions CenteredRmsProp() {
  OptimizerOptions options = Options(OptimizerKind::kRmsProp);
  options.rmsprop_centered = true;
  options.rmsprop_momentum = 0.5;
  return options;
}

OptimizerOptions RegularizedFtrl(double power) {
  OptimizerOptions options = Options(OptimizerKind::kFtrl);
  options.ftrl_l1 = 0.01;
  options.ftrl_l2 = 0.002;
  options.ftrl_learning_rate_power = power;
  return options;
}

// Returns options with an epsilon that matters beside the gradients.
OptimizerOptions CorrectedEpsilon(OptimizerKind kind) {
  OptimizerOptions options = Options(kind);
  options.adam_epsilon = 0.1;
  options.corrected_epsilon = true;
  return options;
}

std::vector<Case> Cases() {
  const std::vector<std::vector<float>> momentum = {{0.195, 1.8975, -1.799}};
  const std::vector<std::vector<float>> moments = {{0.0195, 0.18975, -0.1799},
                                                   {0.00034949025, 0.00287262506, 0.003996001}};
  const std::vector<float> squares = {0.45, 2.975, 4.100001};
  const std::vector<float> rms = {0.75915, 0.9928125, 1.0890001};
  return {
      {"sgd", Options(OptimizerKind::kSgd), {0.97, -2.2, 0.6999}, {}},
      {"momentum", Options(OptimizerKind::kMomentum), {0.8755, -2.29225, 0.8799}, momentum},
      {"nesterov", Options(OptimizerKind::kNesterov), {0.85795, -2.463025, 1.04181}, momentum},
      {"adagrad",
       Options(OptimizerKind::kAdagrad),
       {0.943539267, -2.07803888, 0.598723573},
       {squares}},
      {"adadelta",
       Options(OptimizerKind::kAdadelta),
       {0.999976097, -2.0000576, 0.500044689},
       {{0.01625625, 0.137820313, 0.19000005}, {1.54142769e-08, 3.54922614e-08, 9.50000479e-09}}},
      {"rmsprop",
       Options(OptimizerKind::kRmsProp),
       {0.97149074, -2.19605263, 0.681722355},
       {rms, {-0.03443162, 0.0752709929, 9.58265914e-05}}},
      {"rmsprop_centered",
       CenteredRmsProp(),
       {0.926878956, -2.25300867, 0.777252815},
       {rms, {-0.015939123, 0.144209109, -0.0923527496}, {0.0195, 0.18975, -0.1799}}},
      {"adam", Options(OptimizerKind::kAdam), {0.798624731, -2.03391015, 0.63190369}, moments},
      {"adamw", Options(OptimizerKind::kAdamW), {0.795907934, -2.02805365, 0.630330776}, moments},
      {"ftrl",
       RegularizedFtrl(-0.5),
       {0.407054667, -0.506230774, 0.0982103073},
       {squares, {-2.74223393, 8.74358865, -1.99900024}}},
      {"ftrl_power",
       RegularizedFtrl(-0.7),
       {0.509199397, -0.598718717, 0.0740664261},
       {squares, {-2.92366984, 12.855313, -1.99900034}}},
      {"adam_corrected_epsilon",
       CorrectedEpsilon(OptimizerKind::kAdam),
       {0.837503598, -2.05054599, 0.622408541},
       moments},
      {"adamw_corrected_epsilon",
       CorrectedEpsilon(OptimizerKind::kAdamW),
       {0.834736045, -2.04463769, 0.62084054},
       moments},
  };
}

// A variable with its slots.
struct State {
  std::vector<float> value;
  std::vector<std::vector<float>> slots;
  bool operator==(const State& other) const {
    if (!SameBits(value, other.value) || slots.size() != other.slots.size()) return false;
    for (size_t k = 0; k < slots.size(); ++k) {
      if (!SameBits(slots[k], other.slots[k])) return false;
    }
    return true;
  }
  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

State Start(const UpdateRule& rule, std::vector<float> value) {
  State state{std::move(value), {}};
  for (const SlotSpec& slot : rule.slots()) {
    state.slots.emplace_back(state.value.size(), slot.initial_value);
  }
  return state;
}

// Applies [begin, end) of one step from `from` into `to`, which may be `from`.
void ApplyRange(const UpdateRule& rule, const UpdateStep& scalars, const State& from,
                const std::vector<float>& gradient, size_t begin, size_t end, State& to) {
  UpdateStep step = scalars;
  step.value = from.value.data() + begin;
  step.gradient = gradient.data() + begin;
  step.new_value = to.value.data() + begin;
  for (size_t k = 0; k < from.slots.size(); ++k) {
    step.slots[k] = from.slots[k].data() + begin;
    step.new_slots[k] = to.slots[k].data() + begin;
  }
  step.n = end - begin;
  rule.Apply(step);
}

// In [-2, 2); the same numbers with every standard library.
std::vector<float> RandomValues(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int32_t>(random())) / (1u << 30);
  return values;
}

void RunSteps(const UpdateRule& rule, int64_t first, int64_t last, State& state) {
  for (int64_t t = first; t <= last; ++t) {
    UpdateStep scalars;
    scalars.step = t;
    scalars.learning_rate = 0.01f;
    const auto gradient = RandomValues(state.value.size(), static_cast<uint32_t>(t));
    ApplyRange(rule, scalars, state, gradient, 0, state.value.size(), state);
  }
}

class UpdateRuleTest : public ::testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<UpdateRule> Rule(UpdateIsa isa = DetectUpdateIsa()) {
    return UpdateRule::Create(GetParam().options, isa).value();
  }
};

TEST_P(UpdateRuleTest, ReachesKnownValues) {
  const auto rule = Rule();
  State state = Start(*rule, {1, -2, 0.5});
  for (int64_t t = 1; t <= 3; ++t) {
    UpdateStep scalars;
    scalars.step = t;
    scalars.learning_rate = 0.1f;
    const std::vector<float> gradient(kGradients[t - 1], kGradients[t - 1] + 3);
    ApplyRange(*rule, scalars, state, gradient, 0, 3, state);
  }
  const auto near = [](float actual, float expected) {
    EXPECT_NEAR(actual, expected, 2e-6 * std::fabs(expected) + 1e-12);
  };
  for (size_t i = 0; i < 3; ++i) near(state.value[i], GetParam().value[i]);
  ASSERT_EQ(state.slots.size(), GetParam().slots.size());
  for (size_t k = 0; k < state.slots.size(); ++k) {
    for (size_t i = 0; i < 3; ++i) near(state.slots[k][i], GetParam().slots[k][i]);
  }
}

TEST_P(UpdateRuleTest, ResumingFromSavedStateGivesTheSameBits) {
  const auto rule = Rule();
  State whole = Start(*rule, RandomValues(1003, 99));
  RunSteps(*rule, 1, 10, whole);

  State first = Start(*rule, RandomValues(1003, 99));
  RunSteps(*rule, 1, 5, first);
  const State saved = first;
  RunSteps(*rule, 6, 7, first);  // later steps do not change what was saved
  State restored = saved;
  RunSteps(*Rule(), 6, 10, restored);
  EXPECT_TRUE(restored == whole);
}

TEST_P(UpdateRuleTest, AnySlicingGivesTheSameBits) {
  const auto rule = Rule();
  const size_t n = 1000;
  const State from = Start(*rule, RandomValues(n, 1));
  const auto gradient = RandomValues(n, 2);
  UpdateStep scalars;
  scalars.step = 3;
  scalars.learning_rate = 0.05f;
  scalars.gradient_scale = 0.3f;
  State whole = from;
  ApplyRange(*rule, scalars, from, gradient, 0, n, whole);
  for (size_t length : {1, 7, 16, 333}) {
    State sliced = from;
    for (size_t begin = 0; begin < n; begin += length) {
      ApplyRange(*rule, scalars, from, gradient, begin, std::min(n, begin + length), sliced);
    }
    EXPECT_TRUE(sliced == whole) << "slices of " << length;
  }
}

TEST_P(UpdateRuleTest, EveryInstructionSetGivesTheSameBits) {
  const auto baseline = Rule(UpdateIsa::kBaseline);
  State expected = Start(*baseline, RandomValues(1003, 5));
  RunSteps(*baseline, 1, 20, expected);
  for (UpdateIsa isa : {UpdateIsa::kAvx2, UpdateIsa::kAvx512}) {
    if (isa > DetectUpdateIsa()) break;
    const auto rule = Rule(isa);
    State state = Start(*rule, RandomValues(1003, 5));
    RunSteps(*rule, 1, 20, state);
    EXPECT_TRUE(state == expected) << static_cast<int>(isa);
  }
}

TEST_P(UpdateRuleTest, InPlaceAndOutOfPlaceAgreeAndTheInputStays) {
  const auto rule = Rule();
  const State before = Start(*rule, RandomValues(77, 1));
  const auto gradient = RandomValues(77, 2);
  UpdateStep scalars;
  scalars.learning_rate = 0.1f;
  State from = before;
  State out = Start(*rule, std::vector<float>(77));
  ApplyRange(*rule, scalars, from, gradient, 0, 77, out);
  EXPECT_TRUE(from == before);
  ApplyRange(*rule, scalars, from, gradient, 0, 77, from);
  EXPECT_TRUE(from == out);
}

TEST_P(UpdateRuleTest, ScaleAndLimitActOnTheGradient) {
  const auto rule = Rule();
  const State from = Start(*rule, {1, 2, 3, 4});
  UpdateStep plain;
  plain.learning_rate = 0.1f;
  UpdateStep clipped = plain;
  clipped.gradient_scale = 0.5f;
  clipped.gradient_limit = 2;
  State expected = from;
  ApplyRange(*rule, plain, from, {1, -2, 2, -0.25f}, 0, 4, expected);
  State actual = from;
  ApplyRange(*rule, clipped, from, {2, -8, 4, -0.5f}, 0, 4, actual);
  EXPECT_TRUE(actual == expected);
}

TEST_P(UpdateRuleTest, L2DecayAddsAShareOfTheValueToTheGradient) {
  OptimizerOptions options = GetParam().options;
  options.l2_decay = 0.25;
  if (options.kind == OptimizerKind::kAdamW || options.kind == OptimizerKind::kFtrl) {
    EXPECT_THAT(std::string(UpdateRule::Create(options).status().message()),
                HasSubstr("l2_decay: must be 0, is 0.25"));
    return;
  }
  const auto plain = Rule();
  constexpr size_t kElements = 5003;
  const State from = Start(*plain, RandomValues(kElements, 3));
  const std::vector<float> gradient = RandomValues(kElements, 4);
  UpdateStep scalars;
  scalars.learning_rate = 0.1f;
  scalars.gradient_scale = 0.5f;
  scalars.gradient_limit = 0.75f;
  std::vector<float> decayed(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    const float clipped = std::max(-0.75f, std::min(0.75f, 0.5f * gradient[i]));
    decayed[i] = clipped + 0.25f * from.value[i];
  }
  UpdateStep given;
  given.learning_rate = 0.1f;
  State expected = from;
  ApplyRange(*plain, given, from, decayed, 0, kElements, expected);
  for (UpdateIsa isa : {UpdateIsa::kBaseline, UpdateIsa::kAvx2, UpdateIsa::kAvx512}) {
    if (isa > DetectUpdateIsa()) break;
    const auto rule = UpdateRule::Create(options, isa).value();
    State actual = from;
    ApplyRange(*rule, scalars, from, gradient, 0, kElements, actual);
    EXPECT_TRUE(actual == expected) << static_cast<int>(isa);
    State in_place = from;
    ApplyRange(*rule, scalars, in_place, gradient, 0, kElements, in_place);
    EXPECT_TRUE(in_place == expected) << static_cast<int>(isa);
  }
}

TEST_P(UpdateRuleTest, ANanGradientIsNotHidden) {
  const auto rule = Rule();
  State state = Start(*rule, {1, 1});
  UpdateStep scalars;
  scalars.learning_rate = 0.1f;
  scalars.gradient_limit = 1;
  ApplyRange(*rule, scalars, state, {std::nanf(""), 0.5f}, 0, 2, state);
  EXPECT_TRUE(std::isnan(state.value[0]));
  EXPECT_TRUE(std::isfinite(state.value[1]));
}

TEST_P(UpdateRuleTest, ALearningRateOfZeroLeavesTheValue) {
  const auto rule = Rule();
  State state = Start(*rule, {1, -3});
  ApplyRange(*rule, UpdateStep(), state, {0.5f, 2}, 0, 2, state);
  EXPECT_EQ(state.value, (std::vector<float>{1, -3}));
}

TEST_P(UpdateRuleTest, DescendsAParabola) {
  const auto rule = Rule();
  State state = Start(*rule, {1});
  for (int64_t t = 1; t <= 400; ++t) {
    UpdateStep scalars;
    scalars.step = t;
    scalars.learning_rate = GetParam().name == "adadelta" ? 10 : 0.02f;
    const std::vector<float> gradient = {2 * state.value[0]};
    ApplyRange(*rule, scalars, state, gradient, 0, 1, state);
  }
  EXPECT_LT(std::fabs(state.value[0]), 0.7) << state.value[0];
}

INSTANTIATE_TEST_SUITE_P(AllRules, UpdateRuleTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

uint64_t Fnv1a(uint64_t hash, const std::vector<float>& values) {
  for (float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x100000001b3;
  }
  return hash;
}

TEST(UpdateRuleBitsTest, AreTheSameWithEveryCompilerAndMachine) {
  uint64_t hashes[] = {0xcbf29ce484222325, 0xcbf29ce484222325};
  for (const Case& c : Cases()) {
    uint64_t& hash = hashes[c.options.corrected_epsilon ? 1 : 0];
    const auto rule = UpdateRule::Create(c.options).value();
    State state = Start(*rule, RandomValues(257, 7));
    RunSteps(*rule, 1, 30, state);
    hash = Fnv1a(hash, state.value);
    for (const auto& slot : state.slots) hash = Fnv1a(hash, slot);
  }
  EXPECT_EQ(hashes[0], 7288796249720863808u)
      << "a change of these bits breaks resuming from older checkpoints";
  EXPECT_EQ(hashes[1], 12021879397488611860u);
}

TEST(UpdateRuleOptionsTest, FtrlWithL1MakesZeros) {
  OptimizerOptions options = Options(OptimizerKind::kFtrl);
  options.ftrl_l1 = 10;
  const auto rule = UpdateRule::Create(options).value();
  State state = Start(*rule, {0.1f});
  UpdateStep scalars;
  scalars.learning_rate = 0.1f;
  ApplyRange(*rule, scalars, state, {0.1f}, 0, 1, state);
  EXPECT_EQ(state.value[0], 0);
}

TEST(UpdateRuleOptionsTest, ErrorsNameTheField) {
  const auto message = [](const OptimizerOptions& options) {
    return std::string(UpdateRule::Create(options).status().message());
  };
  OptimizerOptions options = Options(OptimizerKind::kAdam);
  options.beta2 = 1;
  EXPECT_THAT(message(options), HasSubstr("beta2: must be at least 0 and less than 1, is 1"));
  options = Options(OptimizerKind::kMomentum);
  options.momentum = std::nan("");
  EXPECT_THAT(message(options), HasSubstr("momentum: must be at least 0 and less than 1, is nan"));
  options = Options(OptimizerKind::kAdagrad);
  options.adagrad_initial_accumulator = 0;
  EXPECT_THAT(message(options), HasSubstr("optimizer.adagrad.initial_accumulator"));
  options = Options(OptimizerKind::kAdamW);
  options.weight_decay = -1;
  EXPECT_THAT(message(options), HasSubstr("weight_decay"));
  options = Options(OptimizerKind::kFtrl);
  options.ftrl_learning_rate_power = 1;
  EXPECT_THAT(message(options), HasSubstr("optimizer.ftrl.learning_rate_power"));
}

TEST(UpdateRuleOptionsTest, NamesParseBack) {
  for (const char* name :
       {"sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "adamw", "ftrl"}) {
    EXPECT_EQ(OptimizerName(ParseOptimizerKind(name).value()), name);
  }
  EXPECT_THAT(std::string(ParseOptimizerKind("adm").status().message()),
              HasSubstr("optimizer is \"adm\": it must be one of sgd, momentum"));
}

TEST(MovingAverageTest, FollowsItsFormulaInPlace) {
  const MovingAverage average = MovingAverage::Create(0.75).value();
  std::vector<float> state = {0, 4};
  const std::vector<float> value = {8, 4};
  average.Apply(state.data(), value.data(), state.data(), 2);
  EXPECT_EQ(state, (std::vector<float>{2, 4}));
  average.Apply(state.data(), value.data(), state.data(), 2);
  EXPECT_EQ(state, (std::vector<float>{3.5, 4}));
  EXPECT_FALSE(MovingAverage::Create(1.5).ok());
  EXPECT_FALSE(MovingAverage::Create(std::nan("")).ok());
}

}  // namespace
}  // namespace shoal
