#include "worker/replica/graph_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/metrics.h"
#include "runtime/config/run_config.h"
#include "runtime/variables/metric_sums.h"
#include "worker/replica/graph_program.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFeatures = 12;

using ModelPart = std::function<std::vector<ModelMetric>(GraphBuilder& builder, Output predictions,
                                                         Output labels, bool is_training)>;

// A program that classifies into three classes on so many clones, and has these metrics.
absl::StatusOr<std::unique_ptr<GraphProgram>> Classifier(uint32_t clones,
                                                         const ModelPart& metrics) {
  GraphProgram::Options options;
  options.run.mutable_deployment()->set_num_ps_tasks(0);
  options.run.mutable_deployment()->set_num_clones(clones);
  options.run.mutable_optimizer()->mutable_sgd();
  options.run.set_replica_batch_size(12);
  ResolveDefaults(TaskCounts(), &options.run);
  options.fields = {{kInputField, {DataType::kFloat32, {kFeatures}}},
                    {kLabelField, {DataType::kInt32, {}}}};
  options.backend = CpuKernelBackend();
  options.model = [metrics](GraphBuilder& builder, absl::Span<const Output> batch,
                            bool is_training) {
    DenseOptions layer;
    layer.units = 3;
    layer.scope = "layer";
    ModelOutputs outputs;
    outputs.predictions = Dense(builder, batch[0], layer);
    outputs.loss =
        AddLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, outputs.predictions, batch[1]);
    outputs.correct_count = CorrectCount(builder, outputs.predictions, batch[1]);
    outputs.metrics = metrics(builder, outputs.predictions, batch[1], is_training);
    return outputs;
  };
  return GraphProgram::Create(std::move(options));
}

enum class How { kTrain, kEvaluate };

BatchResult Compute(GraphProgram* program, int64_t examples, How how) {
  Tensor input = RandomTensor(DataType::kFloat32, {examples, kFeatures}, 1, 0, 1);
  Tensor labels(DataType::kInt32, {examples});
  for (int64_t i = 0; i < examples; ++i) {
    labels.mutable_span<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i % 3);
  }
  LoadedBatch batch;
  batch.num_examples = examples;
  batch.fields = {input.mutable_data(), labels.mutable_data()};
  std::vector<Tensor> values, gradients;
  std::vector<const float*> parameters;
  std::vector<float*> contributions;
  for (size_t v = 0; v < program->variables().size(); ++v) {
    Shape shape;
    for (const int64_t dim : program->variables()[v].shape()) shape.AddDim(dim);
    values.push_back(RandomTensor(DataType::kFloat32, shape, 10 + v, -0.3, 0.3));
    gradients.emplace_back(DataType::kFloat32, shape);
  }
  for (size_t v = 0; v < values.size(); ++v) {
    parameters.push_back(values[v].span<float>().data());
    contributions.push_back(gradients[v].mutable_span<float>().data());
  }
  BatchResult result;
  const absl::Status status =
      how == How::kEvaluate
          ? program->Evaluate(batch, parameters, {}, &result)
          : program->Train(
                {&batch, parameters, contributions}, &result, [](uint32_t, int64_t) {}, [] {});
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

std::vector<ModelMetric> AllKinds(GraphBuilder& builder, Output predictions, Output labels, bool) {
  const Output one = ops::Constant(builder, 1);
  return {LogLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, predictions, labels),
          TopAccuracy(builder, predictions, labels, 2),
          TopAccuracy(builder, predictions, labels, 3),
          {"own/weight", ops::Scale(builder, one, 6), ops::Scale(builder, one, 2)}};
}

TEST(GraphMetricsTest, AreSumsOverTheExamplesOfAllClones) {
  for (const uint32_t clones : {1u, 2u, 5u}) {
    const auto program = Classifier(clones, AllKinds);
    ASSERT_TRUE(program.ok()) << program.status();
    ASSERT_EQ((*program)->metrics().size(), 4u);
    EXPECT_EQ((*program)->metrics()[1].name(), "top_2_accuracy");
    EXPECT_EQ((*program)->metrics()[1].kind(), v1::METRIC_KIND_MEAN);
    for (const How how : {How::kTrain, How::kEvaluate}) {
      for (const int64_t examples : {12, 3}) {  // Some of five clones get none of 3.
        const BatchResult result = Compute(program->get(), examples, how);
        ASSERT_EQ(result.metrics.size(), 4u);
        EXPECT_NEAR(result.metrics[0].sum, result.loss_sum, 1e-5 * result.loss_sum);
        EXPECT_EQ(result.metrics[0].weight, static_cast<double>(examples));
        EXPECT_GE(result.metrics[1].sum, static_cast<double>(result.correct));
        EXPECT_EQ(result.metrics[2].sum, static_cast<double>(examples)) << "three of three";
        EXPECT_EQ(MetricValue(result.metrics[3]), 3.0);
        const auto used = static_cast<double>(std::min<int64_t>(clones, examples));
        EXPECT_EQ(result.metrics[3].weight, 2 * used) << "2 from each clone with examples";
      }
    }
  }
}

// Returns float32 numbers, 1 where the class is `wanted` and 0 elsewhere.
Output IsClass(GraphBuilder& builder, Output labels, double wanted) {
  const Output numbers = ops::Cast(builder, labels, DataType::kFloat32);
  return ops::Cast(builder, ops::Equal(builder, numbers, ops::Constant(builder, wanted)),
                   DataType::kFloat32);
}

// Scores rise with the class: 0, 0.3 and 0.6.
std::vector<ModelMetric> Areas(GraphBuilder& builder, Output predictions, Output labels, bool) {
  const Output scores = ops::Scale(builder, ops::Cast(builder, labels, DataType::kFloat32), 0.3);
  const Output logits = ops::Reshape(builder, scores, {0, 1});
  ModelMetric middle =
      AreaUnderCurveMetric(builder, LossKind::kLog, logits, IsClass(builder, labels, 1));
  middle.name = "middle";
  ModelMetric last = AreaUnderCurveMetric(builder, LossKind::kSigmoidCrossEntropy, logits,
                                          IsClass(builder, labels, 2));
  last.name = "last";
  const Output even = ops::Scale(builder, logits, 0);
  return {middle, last,
          Calibration(builder, LossKind::kSigmoidCrossEntropy, even, IsClass(builder, labels, 1)),
          TopAccuracy(builder, predictions, labels, 3)};
}

TEST(GraphMetricsTest, AreasUnderCurvesAreThoseOfTheExamplesOfAllClones) {
  for (const uint32_t clones : {1u, 2u, 5u}) {
    const auto program = Classifier(clones, Areas);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ((*program)->metrics()[0].kind(), v1::METRIC_KIND_AUC);
    EXPECT_EQ((*program)->metrics()[2].kind(), v1::METRIC_KIND_MEAN);
    for (const How how : {How::kTrain, How::kEvaluate}) {
      for (const int64_t examples : {12, 3}) {  // Some of five clones get none of 3.
        BatchResult result = Compute(program->get(), examples, how);
        ASSERT_EQ(result.metrics.size(), 4u);
        ASSERT_EQ(result.metrics[0].histogram.size(), 3u) << "one bin for each class";
        EXPECT_EQ(result.metrics[0].histogram[1].positives, static_cast<uint32_t>(examples / 3));
        FinishHistograms(&result.metrics);
        EXPECT_EQ(MetricValue(result.metrics[0]), 0.5);
        EXPECT_EQ(MetricValue(result.metrics[1]), 1.0);
        EXPECT_NEAR(MetricValue(result.metrics[2]).value(), 1.5, 1e-6) << "0.5 instead of 1/3";
        EXPECT_EQ(MetricValue(result.metrics[3]), 1.0);
      }
    }
  }
}

TEST(GraphMetricsTest, OnlyBinaryClassifiersHaveAnAreaUnderTheCurve) {
  const WantedMetric auc = ParseMetric("auc").value();
  const Shape one({kUnknownDim, 1}), two({kUnknownDim, 2});
  EXPECT_TRUE(CheckMetricFits("auc", auc, LossKind::kSigmoidCrossEntropy, one).ok());
  EXPECT_TRUE(CheckMetricFits("auc", auc, LossKind::kLog, one).ok());
  EXPECT_TRUE(CheckMetricFits("auc", auc, LossKind::kSparseSoftmaxCrossEntropy, two).ok());
  for (const auto& [loss, shape] : {std::pair{LossKind::kSparseSoftmaxCrossEntropy, one},
                                    {LossKind::kSigmoidCrossEntropy, two},
                                    {LossKind::kMeanSquaredError, one}}) {
    EXPECT_THAT(std::string(CheckMetricFits("auc", auc, loss, shape).message()),
                HasSubstr("metrics: auc needs a binary classifier"));
  }
}

TEST(GraphMetricsTest, MeanAbsoluteErrorIsTheMeanOfAnExamplesNumbers) {
  const ModelPart metric = [](GraphBuilder& builder, Output predictions, Output, bool) {
    const Output zeros = ops::Scale(builder, predictions, 0);
    const Output two = ops::Add(builder, zeros, ops::Constant(builder, 2));
    return std::vector<ModelMetric>{MeanAbsoluteError(builder, zeros, two)};
  };
  const auto program = Classifier(2, metric);
  ASSERT_TRUE(program.ok()) << program.status();
  const BatchResult result = Compute(program->get(), 12, How::kTrain);
  EXPECT_NEAR(result.metrics[0].sum, 24, 1e-5);
  EXPECT_EQ(result.metrics[0].weight, 12);
}

TEST(GraphMetricsTest, ImpossibleMetricsAreNamed) {
  const auto error_of = [](const ModelPart& metrics) {
    return std::string(Classifier(2, metrics).status().message());
  };
  const auto one = [](GraphBuilder& builder) { return ops::Constant(builder, 1); };
  EXPECT_THAT(error_of([](GraphBuilder&, Output predictions, Output, bool) {
                return std::vector<ModelMetric>{{"f1", predictions, {}}};
              }),
              HasSubstr("metric \"f1\": its sum and weight are float32 scalars"));
  EXPECT_THAT(error_of([](GraphBuilder&, Output, Output, bool) {
                return std::vector<ModelMetric>{{"f1", {}, {}}};
              }),
              HasSubstr("metric \"f1\": has no sum"));
  EXPECT_THAT(error_of([&](GraphBuilder& builder, Output, Output, bool) {
                return std::vector<ModelMetric>{{"f 1", one(builder), {}}};
              }),
              HasSubstr("metric \"f 1\": a metric's name has 1 to 64"));
  EXPECT_THAT(error_of([&](GraphBuilder& builder, Output, Output, bool) {
                return std::vector<ModelMetric>{{"accuracy", one(builder), {}}};
              }),
              HasSubstr("metric \"accuracy\": the model has this metric twice"));
  EXPECT_THAT(error_of([&](GraphBuilder& builder, Output, Output, bool) {
                return std::vector<ModelMetric>(17, {"f1", one(builder), {}});
              }),
              HasSubstr("has 17 metrics; at most 16"));
  EXPECT_THAT(error_of([&](GraphBuilder& builder, Output, Output, bool is_training) {
                std::vector<ModelMetric> metrics;
                if (is_training) metrics.push_back({"f1", one(builder), {}});
                return metrics;
              }),
              HasSubstr("has other metrics with is_training than without"));
}

}  // namespace
}  // namespace shoal
