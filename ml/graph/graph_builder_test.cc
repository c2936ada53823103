#include "ml/graph/graph_builder.h"

#include "gtest/gtest.h"

#include "ml/graph/op_definition.h"
#include "ml/graph/ops.h"

namespace shoal {
namespace {

class GraphBuilderTest : public testing::Test {
 protected:
  Output X(absl::string_view name = "x") {
    return builder_.Placeholder(name, DataType::kFloat32, Shape({kUnknownDim, 4}));
  }
  Output Weights(double l2 = 0) {
    VariableSpec spec;
    spec.name = "weights";
    spec.shape = Shape({4, 2});
    return builder_.GetVariable(spec, l2);
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
};

TEST_F(GraphBuilderTest, NamesAreMadeUniqueInsideTheirScopes) {
  EXPECT_EQ(X().name(), "x");
  EXPECT_EQ(X().name(), "x_1");
  EXPECT_EQ(X("X").name(), "X_2");
  {
    const auto scope = builder_.WithNameScope("clone_0");
    EXPECT_EQ(scope.name(), "clone_0/");
    EXPECT_EQ(X().name(), "clone_0/x");
    const auto inner = builder_.WithNameScope("loss");
    EXPECT_EQ(X().name(), "clone_0/loss/x");
  }
  EXPECT_EQ(builder_.WithNameScope("clone_0").name(), "clone_0_1/");
  const auto again = builder_.WithNameScope("clone_0/");
  EXPECT_EQ(X().name(), "clone_0/x_1");
  const auto top = builder_.WithNameScope("");
  EXPECT_EQ(X("y").name(), "y");
}

TEST_F(GraphBuilderTest, InnerDevicesWinFieldByField) {
  const auto job = builder_.WithDevice("/job:worker");
  const auto gpu = builder_.WithDevice("/gpu:1");
  EXPECT_EQ(X().node->device.ToString(), "/job:worker/device:GPU:1");
  const auto cpu = builder_.WithDevice("/cpu:0");
  EXPECT_EQ(X().node->device.ToString(), "/job:worker/device:CPU:0");
}

TEST_F(GraphBuilderTest, DeviceFunctionsSeeOpAndDeviceSoFar) {
  const auto function = builder_.WithDevice([](absl::string_view op, const std::string& device) {
    if (!device.empty()) return device;
    return std::string(op == "Placeholder" ? "/job:ps/task:3" : "/job:worker");
  });
  EXPECT_EQ(X().node->device.ToString(), "/job:ps/task:3");
  EXPECT_EQ(ops::Constant(builder_, 1).node->device.ToString(), "/job:worker");
  const auto inner = builder_.WithDevice("/cpu:1");
  EXPECT_EQ(X().node->device.ToString(), "/device:CPU:1");
}

TEST_F(GraphBuilderTest, VariablesHaveTheirOwnInnermostDevice) {
  const auto clone = builder_.WithDevice("/job:worker/gpu:0");
  const auto variables = builder_.WithVariableDevice(
      [](absl::string_view, const std::string&) { return "/job:ps/task:1/cpu:0"; });
  EXPECT_EQ(Weights().node->device.ToString(), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(X().node->device.ToString(), "/job:worker/device:GPU:0");
}

TEST_F(GraphBuilderTest, VariablesAreMadeOnceAndFoundWhenReused) {
  Output first;
  {
    const auto scope = builder_.WithVariableScope("layer");
    first = Weights();
    EXPECT_EQ(first.name(), "layer/weights");
  }
  {
    const auto reuse = builder_.WithVariableScope("layer", Reuse::kReuse);
    EXPECT_EQ(Weights(), first);
  }
  EXPECT_EQ(graph_.variables().size(), 1u);
  EXPECT_EQ(graph_.Collection(kTrainableVariables).size(), 1u);
  const auto scope = builder_.WithVariableScope("layer");
  EXPECT_FALSE(Weights().valid());
  EXPECT_EQ(builder_.status().message(),
            "Variable layer/weights already exists, disallowed. Did you mean to set reuse=True in "
            "VarScope?");
}

TEST_F(GraphBuilderTest, ReusingWhatIsNotThereIsAnError) {
  const auto reuse = builder_.ReenterVariableScope(Reuse::kReuse);
  EXPECT_FALSE(Weights().valid());
  EXPECT_EQ(builder_.status().message(),
            "Variable weights does not exist, or was not created with get_variable(). Did you mean "
            "to set reuse=None in VarScope?");
}

TEST_F(GraphBuilderTest, ReenteringStartsDefaultNamesAnew) {
  for (const Reuse reuse : {Reuse::kCreate, Reuse::kReuse}) {
    const auto model = builder_.ReenterVariableScope(reuse);
    for (const char* name : {"dense/weights", "dense_1/weights"}) {
      const auto layer = builder_.WithDefaultVariableScope("dense");
      EXPECT_EQ(Weights().name(), name);
    }
  }
  EXPECT_TRUE(builder_.status().ok()) << builder_.status();
  EXPECT_EQ(graph_.variables().size(), 2u);
}

TEST_F(GraphBuilderTest, ARegularizerIsMadeWithItsVariable) {
  Weights(0.01);
  {
    const auto reuse = builder_.ReenterVariableScope(Reuse::kReuse);
    Weights(0.01);
  }
  const std::vector<Output> losses = graph_.Collection(kRegularizationLosses);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].name(), "weights/Regularizer/l2_regularizer");
}

TEST_F(GraphBuilderTest, CollectionsAreFilteredByScope) {
  for (const char* name : {"clone_0", "clone_1"}) {
    const auto scope = builder_.WithNameScope(name);
    builder_.AddToCollection(kLosses, ops::Constant(builder_, 1));
  }
  EXPECT_EQ(graph_.Collection(kLosses).size(), 2u);
  ASSERT_EQ(graph_.Collection(kLosses, "clone_1/").size(), 1u);
  EXPECT_EQ(graph_.Collection(kLosses, "clone_1/")[0].name(), "clone_1/Constant");
}

TEST_F(GraphBuilderTest, TheFirstErrorNamesTheNodeAndStays) {
  const auto scope = builder_.WithNameScope("model");
  ops::MatMul(builder_, X(), ops::Constant(builder_, 1, DataType::kFloat32, {3, 5}));
  EXPECT_EQ(builder_.status().message(),
            "model/MatMul (MatMul): inner dimensions differ: [?,4] and [3,5]");
  EXPECT_FALSE(builder_.Op("Relu", {}).valid());
  EXPECT_EQ(builder_.status().message().substr(0, 12), "model/MatMul");
}

TEST_F(GraphBuilderTest, UnknownOpsAndWrongCountsAreRefused) {
  GraphBuilder other(&graph_);
  other.Op("Swish", {});
  EXPECT_EQ(other.status().message(), "Swish (Swish): there is no such op");
  builder_.Op("Relu", {X(), X()});
  EXPECT_EQ(builder_.status().message(), "Relu (Relu): needs 1 inputs, has 2");
}

TEST(OpTableTest, FindsEveryOpByName) {
  for (const char* op : {"Abs", "Add", "AddN", "BatchNorm", "Conv", "MatMul", "MaxPool", "Maximum",
                         "Scale", "SparseSoftmaxCrossEntropyGrad", "Split", "Transpose"}) {
    ASSERT_NE(FindOp(op), nullptr) << op;
    EXPECT_STREQ(FindOp(op)->name, op);
  }
  EXPECT_EQ(FindOp("Ad"), nullptr);
  EXPECT_EQ(FindOp("Zeros"), nullptr);
}

}  // namespace
}  // namespace shoal
