#include "ml/graph/placer.h"

#include "gtest/gtest.h"

#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"

namespace shoal {
namespace {

class PlacerTest : public testing::Test {
 protected:
  PlacerTest() {
    options_.devices = *LocalDevices("worker", 0, {"/cpu:0", "/cpu:1"});
    options_.log = [this](const std::string& line) { log_ += line + "\n"; };
  }

  void AddGpu() {
    options_.devices = *LocalDevices("worker", 0, {"/cpu:0", "/gpu:0", "/gpu:1"});
    options_.has_kernel = [](absl::string_view type, const Node& node) {
      return type == "CPU" || node.outputs[0].dtype == DataType::kFloat32;
    };
  }

  // The device of a constant built under `device`, or the error.
  std::string Placed(absl::string_view device, DataType dtype = DataType::kFloat32) {
    Graph graph;
    GraphBuilder builder(&graph);
    const auto scope = builder.WithDevice(device);
    ops::Constant(builder, 1, dtype);
    const absl::StatusOr<std::vector<int>> placement = PlaceNodes(graph, options_);
    if (!placement.ok()) return std::string(placement.status().message());
    return options_.devices[placement->at(0)].ToString();
  }

  PlacerOptions options_;
  std::string log_;
};

TEST_F(PlacerTest, WithoutAGpuEverythingIsOnTheFirstCpu) {
  EXPECT_EQ(Placed(""), "/job:worker/task:0/device:CPU:0");
  EXPECT_EQ(Placed("/cpu:1"), "/job:worker/task:0/device:CPU:1");
  EXPECT_EQ(Placed("/job:worker/cpu:1"), "/job:worker/task:0/device:CPU:1");
  EXPECT_EQ(log_.substr(0, log_.find('\n')),
            "Constant: (Constant): /job:worker/task:0/device:CPU:0");
}

TEST_F(PlacerTest, WithAGpuNodesThatItSupportsRunThere) {
  AddGpu();
  EXPECT_EQ(Placed(""), "/job:worker/task:0/device:GPU:0");
  EXPECT_EQ(Placed("/gpu:1"), "/job:worker/task:0/device:GPU:1");
  EXPECT_EQ(Placed("", DataType::kInt32), "/job:worker/task:0/device:CPU:0");
}

TEST_F(PlacerTest, SoftPlacementFallsBackToTheCpuOfTheSameIndex) {
  EXPECT_EQ(Placed("/gpu:1"), "/job:worker/task:0/device:CPU:1");
  EXPECT_EQ(Placed("/gpu:7"), "/job:worker/task:0/device:CPU:0");
  AddGpu();
  EXPECT_EQ(Placed("/gpu:0", DataType::kInt32), "/job:worker/task:0/device:CPU:0");
}

TEST_F(PlacerTest, HardPlacementNamesNodeOpAndDevices) {
  options_.allow_soft_placement = false;
  EXPECT_EQ(
      Placed("/gpu:0"),
      "Cannot assign a device for operation 'Constant' (Constant): Could not satisfy explicit "
      "device specification '/device:GPU:0' because no devices matching that specification "
      "are in this process; devices with a kernel for it: /job:worker/task:0/device:CPU:0, "
      "/job:worker/task:0/device:CPU:1. Name one of these, or leave out --noallow_soft_placement");
  AddGpu();
  EXPECT_NE(Placed("/gpu:0", DataType::kInt32)
                .find("because no supported kernel for GPU devices is available; devices with a "
                      "kernel for it: /job:worker/task:0/device:CPU:0."),
            std::string::npos);
}

TEST_F(PlacerTest, VariablesOfAnotherJobStayWithTheirOwner) {
  Graph graph;
  GraphBuilder builder(&graph);
  const auto device = builder.WithDevice("/job:ps/task:1/cpu:0");
  VariableSpec spec;
  spec.name = "w";
  builder.GetVariable(spec);
  const absl::StatusOr<std::vector<int>> placement = PlaceNodes(graph, options_);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->at(0), -1);
  EXPECT_EQ(log_, "w: (Variable): /job:ps/task:1/device:CPU:0\n");
}

TEST_F(PlacerTest, LocalDevicesNeedTypeAndIndex) {
  EXPECT_EQ(LocalDevices("worker", 0, {"/cpu"}).status().message(),
            "devices: '/cpu' must name a type and an index, as /cpu:0");
}

}  // namespace
}  // namespace shoal
