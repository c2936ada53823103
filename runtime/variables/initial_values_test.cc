#include "runtime/variables/initial_values.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

v1::VariableSpec Spec(const std::string& name, v1::Initializer::Kind kind, double a, double b) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(40);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_initializer()->set_kind(kind);
  spec.mutable_initializer()->set_a(a);
  spec.mutable_initializer()->set_b(b);
  return spec;
}

std::vector<float> AllValues(const std::vector<v1::VariableSpec>& specs, uint64_t slice_bytes,
                             uint64_t seed) {
  const SliceTable table = *SliceTable::Create(specs, slice_bytes);
  InitialValues initial(specs, table, seed);
  std::vector<float> values;
  for (uint32_t slice = 0; slice < table.size(); ++slice) {
    std::vector<float> value(table[slice].num_elements);
    SliceSource::Contents contents;
    contents.value = absl::MakeSpan(value);
    EXPECT_TRUE(initial.Fill(slice, &contents).ok());
    EXPECT_TRUE(contents.slots_follow_value);
    values.insert(values.end(), value.begin(), value.end());
  }
  return values;
}

TEST(InitialValuesTest, DoNotDependOnHowVariablesAreCut) {
  const std::vector<v1::VariableSpec> specs = {Spec("w", v1::Initializer::KIND_NORMAL, 0, 1),
                                               Spec("b", v1::Initializer::KIND_CONSTANT, 0.5, 0),
                                               Spec("u", v1::Initializer::KIND_UNIFORM, -1, 1)};
  const std::vector<float> whole = AllValues(specs, 4096, 7);
  EXPECT_EQ(AllValues(specs, 64, 7), whole);
  EXPECT_NE(AllValues(specs, 64, 8), whole);
  EXPECT_EQ(whole[45], 0.5f);
}

TEST(InitialValuesTest, ABadInitializerIsNamed) {
  const std::vector<v1::VariableSpec> specs = {Spec("w", v1::Initializer::KIND_UNIFORM, 1, -1)};
  const SliceTable table = *SliceTable::Create(specs, 4096);
  std::vector<float> value(40);
  SliceSource::Contents contents;
  contents.value = absl::MakeSpan(value);
  EXPECT_THAT(InitialValues(specs, table, 1).Fill(0, &contents).message(),
              testing::HasSubstr("\"w\""));
}

}  // namespace
}  // namespace shoal
