#include "ml/nn/model_builder.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "ml/data/data_rules.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/reference/reference_kernels.h"
#include "ml/nn/zoo_layers.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// "fashion_cnn, lenet5, ..."
std::string NamesOfModels() {
  return absl::StrJoin(zoo::Models(), ", ", [](std::string* out, const zoo::Model& model) {
    absl::StrAppend(out, model.name);
  });
}

std::vector<FieldSpec> Images() {
  return {{kInputField, {DataType::kFloat32, {1, 28, 28}}}, {kLabelField, {DataType::kInt32, {}}}};
}

std::vector<FieldSpec> Regression(int64_t features, int64_t columns) {
  return {{kInputField, {DataType::kFloat32, {features}}},
          {kTargetField, {DataType::kFloat32, {columns}}}};
}

v1::ModelConfig Parse(const std::string& text) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

std::string ErrorOf(const std::string& text) {
  return std::string(MakeModel(Parse(text), Images(), 10).status().message());
}

// A model with its loss, gradients and a batch of random examples.
struct Training {
  Graph graph;
  std::vector<Output> fetches;
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Tensor> variables;

  Training(const std::string& text, const std::vector<FieldSpec>& fields, int64_t examples) {
    GraphBuilder builder(&graph);
    InputQueue queue(fields);
    const auto model = MakeModel(Parse(text), fields, 10);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::vector<Output> batch = queue.Dequeue(builder);
    const ModelOutputs outputs = (*model)(builder, batch, true);
    std::vector<Output> losses = graph.Collection(kRegularizationLosses);
    losses.push_back(outputs.loss);
    fetches = {ops::AddN(builder, losses), outputs.predictions};
    if (outputs.correct_count.valid()) fetches.push_back(outputs.correct_count);
    const auto gradients =
        BuildGradients(builder, fetches[0], graph.Collection(kTrainableVariables));
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    fetches.insert(fetches.end(), gradients->begin(), gradients->end());
    for (size_t f = 0; f < fields.size(); ++f) {
      Shape shape({examples});
      for (int64_t dim : fields[f].example.shape.dims()) shape.AddDim(dim);
      Tensor tensor(fields[f].example.dtype, shape);
      if (tensor.dtype() == DataType::kFloat32) {
        tensor = RandomTensor(DataType::kFloat32, shape, 7 + f, 0, 1);
      } else {
        for (int64_t i = 0; i < examples; ++i) {
          tensor.mutable_span<int32_t>()[i] = static_cast<int32_t>(i * 3 % 10);
        }
      }
      feeds.emplace_back(batch[f], tensor);
    }
    variables = InitialValues(graph, 11);
  }
};

// The CPU kernels, fused and laid out, against plain loops.
void ExpectCpuAgreesWithReference(const std::string& text, const std::vector<FieldSpec>& fields,
                                  int64_t examples) {
  const Training training(text, fields, examples);
  const auto expected = RunGraph(training.graph, ReferenceKernelBackend(), training.feeds,
                                 training.variables, training.fetches);
  const auto got = RunGraph(training.graph, CpuKernelBackend(), training.feeds, training.variables,
                            training.fetches);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_LE(RelativeDistance((*got)[i], (*expected)[i]), 2e-5) << "fetch " << i;
  }
}

TEST(ModelBuilderTest, FashionCnnAgreesWithPlainLoops) {
  ExpectCpuAgreesWithReference("name: 'fashion_cnn' weight_decay: 0.001", Images(), 5);
}

TEST(ModelBuilderTest, MlpAgreesWithPlainLoops) {
  ExpectCpuAgreesWithReference("name: 'mlp'", Images(), 9);
}

TEST(ModelBuilderTest, SeedMlpAgreesWithPlainLoopsForBothTargets) {
  ExpectCpuAgreesWithReference("name: 'seed_mlp'", Regression(60, 60), 33);
  ExpectCpuAgreesWithReference("name: 'seed_mlp'", Regression(60, 1), 33);
}

TEST(ModelBuilderTest, LayersAgreeWithPlainLoops) {
  ExpectCpuAgreesWithReference(
      "layer { convolution { channels: 16 kernel: 3 activation: ACTIVATION_KIND_RELU } }"
      "layer { pool { kernel: 2 } }"
      "layer { convolution { channels: 32 kernel: 3 stride: 2 no_bias: true } }"
      "layer { activation { kind: ACTIVATION_KIND_RELU } }"
      "layer { pool { kernel: 3 stride: 2 average: true } }"
      "layer { flatten {} }"
      "layer { dense { units: 20 activation: ACTIVATION_KIND_TANH } }"
      "layer { dense { units: 10 no_bias: true } }",
      Images(), 4);
}

TEST(ModelBuilderTest, BatchNormAgreesWithPlainLoops) {
  ExpectCpuAgreesWithReference(
      "layer { convolution { channels: 16 kernel: 3 no_bias: true } }"
      "layer { batch_norm { activation: ACTIVATION_KIND_RELU } }"
      "layer { convolution { channels: 32 kernel: 3 stride: 2 no_bias: true } }"
      "layer { batch_norm { epsilon: 0.01 } }"
      "layer { pool { kernel: 2 } }"
      "layer { dense { units: 24 activation: ACTIVATION_KIND_TANH } }"
      "layer { batch_norm { activation: ACTIVATION_KIND_SIGMOID } }"
      "layer { dense { units: 10 } }",
      Images(), 6);
}

TEST(ModelBuilderTest, ImageLayersAgreeWithPlainLoops) {
  ExpectCpuAgreesWithReference(
      "layer { convolution { channels: 16 kernel: [3, 5] stride: [2, 1] padding: [1, 2] } }"
      "layer { name: 'a' convolution { kernel: 3 depthwise: true dilation: 2 } }"
      "layer { convolution { channels: 32 kernel: 3 groups: 2 padding: [1, 0, 0, 1] } }"
      "layer { pool { kernel: 3 stride: 2 same_padding: true } }"
      "layer { name: 'b' convolution { channels: 24 kernel: 1 } }"
      "layer { name: 'c' convolution { depthwise: true kernel: 3 } }"
      "layer { add { activation: ACTIVATION_KIND_RELU } input: 'b' input: 'c' }"
      "layer { name: 'd' pool { global: true average: true } }"
      "layer { name: 'e' pool { global: true } input: 'add1' }"
      "layer { dense { units: 10 } input: 'd' input: 'e' }",
      Images(), 4);
}

TEST(ModelBuilderTest, MathLayersAgreeWithPlainLoops) {
  ExpectCpuAgreesWithReference(
      "label_smoothing: 0.1 "
      "layer { name: 'a' dense { units: 24 activation: ACTIVATION_KIND_RELU6 } }"
      "layer { dropout { rate: 0.4 } }"
      "layer { activation { kind: ACTIVATION_KIND_LEAKY_RELU alpha: 0.2 } }"
      "layer { reshape { shape: [2, -1] } }"
      "layer { name: 'b' activation { kind: ACTIVATION_KIND_GELU } }"
      "layer { name: 'c' reshape { shape: [2, 12] } input: 'a' }"
      "layer { concat { axis: 2 } input: 'b' input: 'c' }"
      "layer { activation { kind: ACTIVATION_KIND_ELU alpha: 0.5 } }"
      "layer { dense { units: 16 activation: ACTIVATION_KIND_SILU } }"
      "layer { dense { units: 10 activation: ACTIVATION_KIND_SOFTPLUS } }",
      Images(), 5);
}

TEST(ModelBuilderTest, EmbeddingsOfNumbersInADataSet) {
  const Training training(
      "loss: 'mean_squared_error' layer { embedding { rows: 9 units: 4 } } layer { dense { units: "
      "1 } }",
      Regression(6, 1), 3);
  EXPECT_EQ(training.graph.FindVariable("embedding1/embeddings")->spec.shape, Shape({9, 4}));
  EXPECT_EQ(training.graph.FindVariable("dense1/weights")->spec.shape, Shape({24, 1}));
}

TEST(ModelBuilderTest, TransposedConvolutionsAndOtherNormsAgreeWithPlainLoops) {
  ExpectCpuAgreesWithReference(
      "layer { convolution { channels: 16 kernel: 3 stride: 4 } }"
      "layer { local_response_norm { depth_radius: 2 alpha: 0.2 beta: 0.75 } }"
      "layer { transposed_convolution { channels: 32 kernel: 3 stride: 2"
      "        activation: ACTIVATION_KIND_RELU } }"
      "layer { layer_norm { axis: 1 } }"
      "layer { transposed_convolution { channels: 8 kernel: [2, 3] valid_padding: true"
      "        groups: 2 } }"
      "layer { dense { units: 20 } } layer { layer_norm { epsilon: 0.01 } }"
      "layer { dense { units: 10 } }",
      Images(), 4);
}

TEST(ModelBuilderTest, ClassesAreComparedAsNumbersWhereTheLossWantsThem) {
  for (const char* loss : {"sigmoid_cross_entropy", "hinge", "log_loss"}) {
    ExpectCpuAgreesWithReference(
        absl::StrCat("loss: '", loss,
                     "' layer { dense { units: 1 activation: ACTIVATION_KIND_SIGMOID } }"),
        Images(), 3);
  }
}

TEST(ModelBuilderTest, SeedMlpHasScalarBiasesAndUnitLastWeights) {
  const Training training("name: 'seed_mlp'", Regression(600, 1), 1);
  ASSERT_EQ(training.graph.variables().size(), 8u);
  const Variable& bias = *training.graph.FindVariable("affine0/b");
  EXPECT_EQ(bias.spec.shape, Shape());
  const Variable& first = *training.graph.FindVariable("affine0/w");
  EXPECT_EQ(first.spec.shape, Shape({600, 512}));
  EXPECT_EQ(first.spec.initializer, TruncatedNormalInitializer(0, 1));
  const Variable& last = *training.graph.FindVariable("affine_last/w");
  EXPECT_EQ(last.spec.shape, Shape({128, 1}));
  EXPECT_EQ(last.spec.initializer, ConstantInitializer(1));
}

TEST(ModelBuilderTest, TheCnnIsFusedIntoFourForwardAndFourBackwardSteps) {
  const Training training("name: 'fashion_cnn'", Images(), 4);
  const KernelBackend backend = CpuKernelBackend();
  const auto executable =
      Compile(MakeRequest(training.graph, backend, training.feeds, training.fetches));
  ASSERT_TRUE(executable.ok()) << executable.status();
  const std::string text = (*executable)->ToString();
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("= ConvPool("), 2) << text;
  EXPECT_EQ(count("= ConvPoolGrad("), 2) << text;
  EXPECT_EQ(count("= Dense("), 2) << text;
  EXPECT_EQ(count("= DenseGrad("), 2) << text;
  EXPECT_EQ(count("= ReluGrad("), 0) << text;
  // Blocked layouts are for the vectors of AVX-512.
  const bool has_blocks =
      CpuKernelSupportsLayout("MaxPool", Attributes(), Port::kInput, 0, Layout::kBlocked16);
  EXPECT_EQ(count("= ReorderLayout("), has_blocks ? 2 : 0) << text;
}

TEST(ModelBuilderTest, LayersNameTheirVariablesAndInputs) {
  const Training training(
      "loss: 'mean_squared_error'"
      "layer { name: 'a' dense { units: 3 } } layer { dense { units: 4 } input: 'input' }"
      "layer { dense { units: 10 } input: 'a' input: 'dense2' }",
      Regression(5, 10), 2);
  EXPECT_NE(training.graph.FindVariable("a/weights"), nullptr);
  EXPECT_EQ(training.graph.FindVariable("dense2/weights")->spec.shape, Shape({5, 4}));
  EXPECT_EQ(training.graph.FindVariable("dense3/weights")->spec.shape, Shape({7, 10}));
}

TEST(ModelBuilderTest, MistakesNameTheirField) {
  EXPECT_EQ(ErrorOf("name: 'resnet'"),
            absl::StrCat("model.name: unknown model 'resnet'; known are ", NamesOfModels(),
                         "; or leave it empty and list model.layer"));
  EXPECT_EQ(ErrorOf("name: 'mlp' layer { flatten {} }"),
            "model: give either a name or layers, not both");
  EXPECT_EQ(ErrorOf("name: 'mlp' weight_decay: nan"), "model.weight_decay: must be a number >= 0");
  EXPECT_TRUE(absl::StartsWith(ErrorOf("name: 'mlp' loss: 'l3'"),
                               "model.loss: unknown loss 'l3'; known are "));
  EXPECT_EQ(ErrorOf("layer { name: 'x' }"),
            "model.layer[0]: 'x': says no kind; give it one of those in model_config.proto, such "
            "as dense");
  EXPECT_EQ(ErrorOf("layer { dense { units: 10 } input: 'y' }"),
            "model.layer[0] (dense): 'dense1': input 'y' is not the name of an earlier layer");
  EXPECT_EQ(ErrorOf("layer { dense {} }"),
            "model.layer[0] (dense): dense1/ units: must be positive, is 0");
  EXPECT_EQ(ErrorOf("layer { flatten {} } layer { convolution { channels: 4 kernel: 3 } }"),
            "model.layer[1] (convolution): convolution1/: the layer needs images [batch, channels, "
            "height, width], has "
            "[?,784]");
  EXPECT_EQ(
      ErrorOf("layer { name: 'c' convolution { channels: 4 kernel: [1, 2, 3] } }"),
      "model.layer[0] (convolution): 'c': kernel takes height and width, or one number for both");
  EXPECT_EQ(
      ErrorOf("layer { name: 'c' convolution { channels: 4 kernel: 3 padding: [1, 2, 3] } }"),
      "model.layer[0] (convolution): 'c': padding takes top, left, bottom and right; vertical and "
      "horizontal; or one");
  EXPECT_EQ(
      ErrorOf("layer { name: 'c' convolution { channels: 4 kernel: 3 groups: 3 } }"),
      "model.layer[0] (convolution): c/ groups: 3 must divide the 1 input and 4 output channels");
  EXPECT_EQ(ErrorOf("layer { name: 'c' convolution { channels: 4 } }"),
            "model.layer[0] (convolution): c/ kernel: must be positive, is 0");
  EXPECT_EQ(ErrorOf("name: 'mlp' label_smoothing: 1.5"),
            "model.label_smoothing: must be in [0, 1]");
  EXPECT_EQ(ErrorOf("layer { dropout { rate: 1 } }"),
            "model.layer[0] (dropout): dropout1/ rate: must be in [0, 1), is 1");
  EXPECT_EQ(ErrorOf("layer { name: 'x' activation { kind: ACTIVATION_KIND_RELU alpha: 1 } }"),
            "model.layer[0] (activation): 'x': activation.alpha: only LEAKY_RELU and ELU have one");
  EXPECT_EQ(ErrorOf("layer { name: 'l' layer_norm { epsilon: -1 } }"),
            "model.layer[0] (layer_norm): 'l': layer_norm needs a positive epsilon");
  EXPECT_EQ(
      ErrorOf("layer { name: 'd' dense { units: 10 } weights_initializer { distribution: "
              "DISTRIBUTION_NORMAL "
              "b: -1 } }"),
      "model.layer[0] (dense): 'd': weights_initializer: initializer: the standard deviation b "
      "must not be negative, is -1");
  EXPECT_EQ(
      ErrorOf("layer { name: 'd' dense { units: 10 } weights_initializer { distribution: "
              "DISTRIBUTION_HE_NORMAL a: 1 } }"),
      "model.layer[0] (dense): 'd': weights_initializer: a, b: Glorot's and He's take no numbers");
  EXPECT_EQ(ErrorOf("layer { name: 'd' dense { units: 10 } biases_initializer { a: 1 } }"),
            "model.layer[0] (dense): 'd': biases_initializer: distribution: is not given; write "
            "one such as "
            "NORMAL");
  EXPECT_EQ(ErrorOf("layer { name: 'f' flatten {} weight_decay: 0.1 }"),
            "model.layer[0] (flatten): 'f': weight_decay: the layer has no weights");
  EXPECT_EQ(ErrorOf("layer { name: 'd' dense { units: 10 } weight_decay: -1 }"),
            "model.layer[0] (dense): 'd': weight_decay: must be a number >= 0");
  EXPECT_EQ(ErrorOf("layer { name: 'p' pool { global: true kernel: 2 } }"),
            "model.layer[0] (pool): 'p': a global pool takes no kernel, stride or padding");
  EXPECT_EQ(ErrorOf("layer { flatten {} } layer { dense { units: 10 } } layer { pool { kernel: 2 } "
                    "}"),
            "model.layer[2] (pool): the layer needs images [batch, channels, height, width], has "
            "[?,10]");
  EXPECT_EQ(
      MakePredictions(Parse("layer { flatten {} } layer { pool { kernel: 2 } }"), {Images()[0]}, 10)
          .status()
          .message(),
      "model.layer[1] (pool): the layer needs images [batch, channels, height, width], has "
      "[?,784]");
  EXPECT_EQ(ErrorOf("layer { flatten {} } layer { dense { units: 5 } }"),
            "model.layer[1] (dense): has 5 outputs, but there are 10 classes; give it 10 units, or "
            "say with data.classes how many classes there are");
  EXPECT_EQ(ErrorOf("layer { convolution { channels: 4 kernel: 3 } }"),
            "model: its outputs are [?,4,28,28], but classes need one row of 10 outputs for each "
            "example; end with layer { flatten {} } layer { dense { units: 10 } }");
  EXPECT_EQ(ErrorOf("name: 'mlp' loss: 'mean_squared_error'"),
            "model.loss: mean_squared_error compares numbers, but the model has 10 outputs and a "
            "label is one class number; use sparse_softmax_cross_entropy, or give the last layer 1 "
            "unit");
  EXPECT_EQ(MakeModel(Parse("name: 'seed_mlp'"), {Images()[0]}, 10).status().message(),
            "model: the data set has no labels or targets");
}

TEST(ModelBuilderTest, MetricsMustFitTheLossAndTheOutputs) {
  const auto error_of = [](const std::string& text, const std::string& metric,
                           const FieldSpec& target) {
    const std::vector<FieldSpec> fields = {Images()[0], target};
    return std::string(MakeModel(Parse(text), fields, 10, {metric}).status().message());
  };
  const FieldSpec labels = Images()[1];
  const FieldSpec number = {"target", {DataType::kFloat32, {1}}};
  const std::string one_number =
      "layer { flatten {} } layer { dense { units: 1 } } loss: 'mean_squared_error'";
  EXPECT_EQ(error_of("name: 'mlp'", "log_loss", labels), "");
  EXPECT_EQ(error_of("name: 'mlp'", "top_5_accuracy", labels), "");
  EXPECT_EQ(error_of(one_number, "mean_absolute_error", number), "");
  EXPECT_EQ(error_of("name: 'mlp'", "top_10_accuracy", labels),
            "metrics: top_10_accuracy is always 1, because the model has only 10 outputs; drop it "
            "from the run's metrics");
  EXPECT_EQ(
      error_of("name: 'mlp'", "mean_absolute_error", labels),
      "metrics: mean_absolute_error needs mean_squared_error, absolute_difference or huber as "
      "the loss, but the model's loss is sparse_softmax_cross_entropy; drop it from the run's "
      "metrics");
  EXPECT_EQ(error_of(one_number, "log_loss", number),
            "metrics: log_loss needs a cross entropy or log_loss as the loss, but the model's loss "
            "is mean_squared_error; drop it from the run's metrics");
  EXPECT_EQ(error_of(one_number, "top_2_accuracy", number),
            "metrics: top_2_accuracy needs labels that are class numbers, with a softmax cross "
            "entropy, but the model's loss is mean_squared_error; drop it from the run's metrics");
  EXPECT_EQ(
      error_of("name: 'mlp'", "f1", labels),
      "metrics: unknown metric \"f1\"; known are log_loss, mean_absolute_error, auc, calibration, "
      "and top_K_accuracy with K above 1, as in top_5_accuracy");
}

TEST(ModelBuilderTest, MoreOutputsThanClassesAreNoticed) {
  const auto notice = [](const std::string& text, bool has_names) {
    return NoticeOfExtraOutputs(Parse(text), Images(), 3, has_names);
  };
  const std::string ten =
      "layer { flatten {} } layer { dense { units: 10 } } "
      "layer { dropout { rate: 0.5 } }";
  EXPECT_EQ(notice(ten, true),
            "model.layer[1] (dense): has 10 outputs, but there are 3 classes, so `shoal predict` "
            "will show numbers instead of the classes' names; give it 3 units");
  EXPECT_EQ(notice(ten, false),
            "model.layer[1] (dense): has 10 outputs, but there are 3 classes, so the outputs after "
            "the first ones belong to no class; give it 3 units");
  EXPECT_EQ(notice("layer { flatten {} } layer { dense { units: 3 } }", true), "");
  EXPECT_EQ(notice("name: 'mlp'", true), "");
  EXPECT_EQ(notice(ten + " loss: 'hinge'", true), "");
}

TEST(ModelBuilderTest, LayersNameTheFieldsThatTheyTake) {
  const std::vector<FieldSpec> fields = {{"numbers", {DataType::kFloat32, {3}}},
                                         RaggedField("item"),
                                         {"place", {DataType::kFloat32, {2}}},
                                         {"click", {DataType::kInt32, {}}, FieldKind::kDense, true},
                                         {"weight", {DataType::kFloat32, {1}}}};
  const char kTwoTowers[] =
      "input: 'numbers' input: 'place' input: 'weight' "
      "layer { name: 'a' dense { units: 4 } } "
      "layer { name: 'b' input: 'place' dense { units: 4 } } "
      "layer { input: 'a' input: 'b' concat {} } "
      "layer { input: 'numbers' input: 'weight' concat {} } "
      "layer { dense { units: 2 } }";
  const auto model = MakeModel(Parse(kTwoTowers), fields, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  Graph graph;
  GraphBuilder builder(&graph);
  const ModelOutputs outputs = (*model)(builder, InputQueue(fields).Dequeue(builder), true);
  ASSERT_TRUE(builder.status().ok()) << builder.status();
  EXPECT_EQ(graph.FindVariable("a/weights")->spec.shape, Shape({3, 4}));
  EXPECT_EQ(graph.FindVariable("b/weights")->spec.shape, Shape({2, 4}));
  EXPECT_EQ(outputs.predictions.shape(), Shape({kUnknownDim, 2}));
  for (const char* unknown : {"click", "item", "nothing"}) {
    const auto wrong = MakeModel(
        Parse(absl::StrCat("input: '", unknown, "' layer { dense { units: 2 } }")), fields, 2);
    EXPECT_EQ(wrong.status().message(),
              absl::StrCat("model.input: '", unknown,
                           "' is not a dense input of the data, which has numbers, place, weight"));
  }
}

TEST(ModelBuilderTest, LossesOfTwoClassesAndMeansHaveRulesForTheData) {
  const auto loss = [](const std::string& text) { return DataRulesOf(Parse(text)).binary_loss; };
  for (const char* name : {"sigmoid_cross_entropy", "log_loss", "hinge"}) {
    EXPECT_EQ(loss(absl::StrCat("layer { flatten {} } loss: '", name, "'")), name);
  }
  EXPECT_EQ(loss("name: 'dlrm'"), "sigmoid_cross_entropy");
  EXPECT_EQ(loss("name: 'dlrm' loss: 'mean_squared_error'"), "");
  EXPECT_EQ(loss("name: 'mlp'"), "");
  EXPECT_EQ(loss("loss: 'unknown'"), "");
  const DataRules rules = DataRulesOf(
      Parse("feature { column: 'user' } feature { column: 'seen' pooling: POOLING_MEAN }"
            "feature { column: 'c*' pooling: POOLING_MEAN }"));
  EXPECT_TRUE(rules.TakesMean("seen"));
  EXPECT_TRUE(rules.TakesMean("c1"));
  EXPECT_FALSE(rules.TakesMean("user"));
}

TEST(ModelBuilderTest, ATargetMustBeADenseField) {
  const FieldSpec input = {"input", {DataType::kFloat32, {3}}};
  FieldSpec target = RaggedField("clicked");
  target.is_target = true;
  const v1::ModelConfig config = Parse("layer { dense { units: 2 } }");
  EXPECT_THAT(std::string(MakeModel(config, {input, target}, 2).status().message()),
              HasSubstr("model: the target clicked is a ragged field"));
  EXPECT_THAT(std::string(MakeModel(config, {input}, 2).status().message()),
              HasSubstr("the data set has no labels or targets"));
}

}  // namespace
}  // namespace shoal
