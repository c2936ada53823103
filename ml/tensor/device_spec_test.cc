#include "ml/tensor/device_spec.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

std::string Canonical(absl::string_view text) {
  absl::StatusOr<DeviceSpec> spec = DeviceSpec::Parse(text);
  return spec.ok() ? spec->ToString() : std::string(spec.status().message());
}

std::string Merged(absl::string_view outer, absl::string_view inner) {
  return DeviceSpec::Parse(outer)->MergedWith(*DeviceSpec::Parse(inner)).ToString();
}

TEST(DeviceSpecTest, PrintsEveryFormInCanonicalForm) {
  EXPECT_EQ(Canonical(""), "");
  EXPECT_EQ(Canonical("/cpu:0"), "/device:CPU:0");
  EXPECT_EQ(Canonical("/GPU:*"), "/device:GPU:*");
  EXPECT_EQ(Canonical("/device:gpu:2"), "/device:GPU:2");
  EXPECT_EQ(Canonical("/job:x/replica:0/task:1/device:GPU:2"),
            "/job:x/replica:0/task:1/device:GPU:2");
  EXPECT_EQ(Canonical("/job:ps"), "/job:ps");
}

TEST(DeviceSpecTest, NamesTheMistake) {
  EXPECT_EQ(Canonical("/cpu:0/gpu:1"), "Cannot specify multiple device types: /cpu:0/gpu:1");
  EXPECT_EQ(Canonical("/machine:3").rfind("Unknown attribute: '/machine:3'", 0), std::string::npos);
  EXPECT_EQ(Canonical("/machine:3").rfind("Unknown attribute: 'machine:3'", 0), 0u);
  EXPECT_EQ(Canonical("/task:many").rfind("Unknown attribute: 'task:many'", 0), 0u);
  EXPECT_EQ(Canonical("/device:TPU:0").rfind("Unknown attribute: 'TPU'", 0), 0u);
}

TEST(DeviceSpecTest, InnerFieldsWin) {
  EXPECT_EQ(Merged("/job:worker", "/device:CPU:0"), "/job:worker/device:CPU:0");
  EXPECT_EQ(Merged("/job:worker/task:0", "/task:1"), "/job:worker/task:1");
  EXPECT_EQ(Merged("/gpu:3", "/cpu:0"), "/device:CPU:0");
  EXPECT_EQ(Merged("/gpu:3", ""), "/device:GPU:3");
}

}  // namespace
}  // namespace shoal
