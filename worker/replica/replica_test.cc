#include "worker/replica/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/v1/variable.pb.h"
#include "runtime/variables/exchange_groups.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

v1::VariableSpec Spec(const char* name, v1::UpdateKind update) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(2);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(update);
  return spec;
}

// Two weights and a statistic of two elements each; what a batch contributes is set by the test.
class ScriptedProgram : public ReplicaProgram {
 public:
  ScriptedProgram()
      : variables_({Spec("a", v1::UPDATE_KIND_OPTIMIZER), Spec("b", v1::UPDATE_KIND_OPTIMIZER),
                    Spec("mean", v1::UPDATE_KIND_MOVING_AVERAGE)}) {}

  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t /*variable*/) const override { return true; }
  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override {
    result->loss_sum = loss_sum;
    versions.assign(arguments.versions.begin(), arguments.versions.end());
    on_result();
    for (uint32_t v = 3; v-- > 0;) {
      arguments.contributions[v][0] = contributions[v].first;
      arguments.contributions[v][1] = contributions[v].second;
      on_final(v, 2);
    }
    return absl::OkStatus();
  }
  absl::Status Evaluate(const LoadedBatch& /*batch*/, absl::Span<const float* const> /*parameters*/,
                        absl::Span<const uint64_t> /*versions*/, BatchResult* /*result*/) override {
    return absl::OkStatus();
  }
  std::string compute_fingerprint() const override { return "scripted"; }

  double loss_sum = 1;
  std::vector<uint64_t> versions;  // of the last batch
  std::pair<float, float> contributions[3] = {{3, 0}, {0, 4}, {10, 20}};

 private:
  const std::vector<v1::VariableSpec> variables_;
};

class ReplicaTest : public ::testing::Test {
 protected:
  // The pushed values, by variable, and whether the groups were called finite.
  struct Pushed {
    std::map<uint32_t, std::vector<float>> values;
    std::vector<bool> finite;
  };

  Pushed TrainWith(double clip_by_global_norm) {
    const SliceTable table = std::move(SliceTable::Create(program_.variables(), 4096).value());
    // A group for every variable.
    const std::vector<ExchangeGroup> groups = MakeExchangeGroups(table, {0, 0, 0}, 8);
    Replica replica(&program_, &table, &groups, clip_by_global_norm);
    Pushed pushed;
    const LoadedBatch batch;
    EXPECT_TRUE(
        replica
            .Train(batch, 0, 0,
                   [&](uint32_t group, bool finite, const BatchReport& /*report*/) {
                     pushed.finite.push_back(finite);
                     const auto* data = static_cast<const float*>(replica.push_data(0, group)[0]);
                     pushed.values[table[groups[group].slices[0]].variable] = {data[0], data[1]};
                   })
            .ok());
    return pushed;
  }

  ScriptedProgram program_;
};

TEST_F(ReplicaTest, WithoutClippingContributionsAreWhatTheProgramComputed) {
  const Pushed pushed = TrainWith(0);
  EXPECT_THAT(pushed.values,
              UnorderedElementsAre(Pair(0, ElementsAre(3, 0)), Pair(1, ElementsAre(0, 4)),
                                   Pair(2, ElementsAre(10, 20))));
  EXPECT_THAT(pushed.finite, ElementsAre(true, true, true));
}

TEST_F(ReplicaTest, GradientsAreScaledToTheNormTogetherAndStatisticsAreNot) {
  const Pushed pushed = TrainWith(0.5);  // The norm is 5.
  EXPECT_FLOAT_EQ(pushed.values.at(0)[0], 0.3f);
  EXPECT_FLOAT_EQ(pushed.values.at(1)[1], 0.4f);
  EXPECT_THAT(pushed.values.at(2), ElementsAre(10, 20));
}

TEST_F(ReplicaTest, AGradientWithinTheNormStaysAsItIs) {
  EXPECT_THAT(TrainWith(5).values.at(0), ElementsAre(3, 0));
}

TEST_F(ReplicaTest, WhenClippingNoPartOfANonFiniteBatchIsPushed) {
  program_.contributions[0].first = std::nanf("");  // the last one to be final
  EXPECT_THAT(TrainWith(0.5).finite, ElementsAre(false, false, false));
  EXPECT_THAT(TrainWith(0).finite, ElementsAre(true, true, false));
}

TEST_F(ReplicaTest, WhenClippingALossThatIsNotFiniteKeepsAllBack) {
  program_.loss_sum = INFINITY;
  EXPECT_THAT(TrainWith(0.5).finite, ElementsAre(false, false, false));
}

TEST_F(ReplicaTest, AVariableHasANewVersionAfterEveryPullAndTheSameOneUntilThen) {
  const SliceTable table = std::move(SliceTable::Create(program_.variables(), 4096).value());
  const std::vector<ExchangeGroup> groups = MakeExchangeGroups(table, {0, 0, 0}, 8);
  Replica replica(&program_, &table, &groups);
  const auto versions_of = [&](uint32_t set) {
    EXPECT_TRUE(replica.Train({}, set, 0, [](uint32_t, bool, const BatchReport&) {}).ok());
    return program_.versions;
  };
  for (uint32_t set = 0; set < Replica::kSets; ++set) {
    for (uint32_t g = 0; g < groups.size(); ++g) replica.pull_data(set, g, 1);
  }
  const std::vector<uint64_t> first = versions_of(0), other = versions_of(1);
  EXPECT_EQ(versions_of(0), first);
  std::set<uint64_t> numbers(first.begin(), first.end());
  numbers.insert(other.begin(), other.end());
  EXPECT_EQ(numbers.size(), 6u);
  EXPECT_EQ(numbers.count(0), 0u);
  replica.pull_data(0, 1, 1);
  const std::vector<uint64_t> second = versions_of(0);
  const uint32_t pulled = table[groups[1].slices[0]].variable;
  for (uint32_t v = 0; v < 3; ++v) EXPECT_EQ(second[v] != first[v], v == pulled);
  EXPECT_EQ(versions_of(1), other);
}

// A variable that does not change is uploaded to a device only once, no matter which set the device
// computes with.
TEST_F(ReplicaTest, AnUnversionedVariableHasOneVersionForALineageInBothSets) {
  std::vector<v1::VariableSpec> variables = program_.variables();
  variables[1].set_update(v1::UPDATE_KIND_NONE);
  const SliceTable table = std::move(SliceTable::Create(variables, 4096).value());
  const std::vector<ExchangeGroup> groups = MakeExchangeGroups(table, {0, 0, 0}, 8);
  Replica replica(&program_, &table, &groups);
  const auto versions_of = [&](uint32_t set) {
    EXPECT_TRUE(replica.Train({}, set, 0, [](uint32_t, bool, const BatchReport&) {}).ok());
    return program_.versions;
  };
  const auto pull = [&](uint32_t set, uint64_t lineage) {
    for (uint32_t g = 0; g < groups.size(); ++g) replica.pull_data(set, g, lineage);
  };
  pull(0, 1);
  pull(1, 1);
  const std::vector<uint64_t> first = versions_of(0), other = versions_of(1);
  for (uint32_t v = 0; v < 3; ++v) EXPECT_EQ(first[v] == other[v], v == 1) << v;
  EXPECT_NE(first[1], 0u);
  pull(1, 1);
  EXPECT_EQ(versions_of(1)[1], first[1]);
  // Another lineage may have other values, whichever set sees it first.
  pull(1, 2);
  EXPECT_NE(versions_of(1)[1], first[1]);
  pull(0, 2);
  EXPECT_EQ(versions_of(0)[1], versions_of(1)[1]);
}

// One weight of three slices, of which the first two are final before the last is computed.
class PartsProgram : public ReplicaProgram {
 public:
  static constexpr int kSlice = 16;

  PartsProgram() : variables_({Spec("a", v1::UPDATE_KIND_OPTIMIZER)}) {
    variables_[0].set_shape(0, 3 * kSlice);
  }

  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t /*variable*/) const override { return true; }
  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override {
    float* gradient = arguments.contributions[0];
    result->loss_sum = 1;
    std::fill_n(gradient, 3 * kSlice, -1.0f);
    std::fill_n(gradient, 2 * kSlice + 1, 1.0f);
    on_final(0, 2 * kSlice + 1);
    std::fill_n(gradient, 3 * kSlice, 1.0f);
    on_final(0, INT64_MAX);
    on_result();
    return absl::OkStatus();
  }
  absl::Status Evaluate(const LoadedBatch& /*batch*/, absl::Span<const float* const> /*parameters*/,
                        absl::Span<const uint64_t> /*versions*/, BatchResult* /*result*/) override {
    return absl::OkStatus();
  }
  std::string compute_fingerprint() const override { return "parts"; }

 private:
  std::vector<v1::VariableSpec> variables_;
};

TEST(ReplicaPartsTest, AGroupIsHandedOverOnceItsPartOfAVariableIsFinal) {
  PartsProgram program;
  const uint64_t slice_bytes = PartsProgram::kSlice * sizeof(float);
  const SliceTable table = std::move(SliceTable::Create(program.variables(), slice_bytes).value());
  // Two ps, the second with the slice in the middle: the first one's group ends the variable.
  const auto groups = MakeExchangeGroups(table, {0, 1, 0}, 2 * slice_bytes);
  ASSERT_EQ(groups.size(), 2u);
  Replica replica(&program, &table, &groups);
  const LoadedBatch batch;
  for (int run = 0; run < 2; ++run) {
    std::vector<uint32_t> order;       // the ps
    std::vector<float> last_elements;  // those of the variable when it is pushed
    ASSERT_TRUE(replica
                    .Train(batch, 0, 0,
                           [&](uint32_t group, bool finite, const BatchReport& /*report*/) {
                             EXPECT_TRUE(finite);
                             order.push_back(groups[group].ps);
                             const uint32_t first = groups[0].ps == 0 ? 0 : 1;
                             last_elements.push_back(static_cast<const float*>(
                                 replica.push_data(0, first)[1])[PartsProgram::kSlice - 1]);
                           })
                    .ok());
    EXPECT_THAT(order, ElementsAre(1, 0));
    EXPECT_THAT(last_elements, ElementsAre(-1, 1));
  }
}

}  // namespace
}  // namespace shoal
