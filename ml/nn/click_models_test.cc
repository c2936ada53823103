// Compares the zoo's models of clicks with the same models in PyTorch and float64:
// tools/make_golden_clicks.py makes the file of their losses and gradients, from the same weights,
// rows and batch. Other tests are about features and interaction layers of run files.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/hash.h"
#include "ml/data/dataset.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/features.h"
#include "ml/nn/model_builder.h"
#include "ml/tensor/initializer.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 6;
constexpr int kNumSums = 16;

struct Golden {
  std::string seed;
  double loss = 0;
  // Keyed by variable: the norm, then the sketch.
  std::map<std::string, std::vector<double>> gradients;
};

std::map<std::string, Golden> ReadGolden() {
  std::map<std::string, Golden> models;
  Golden* model = nullptr;
  std::ifstream file("ml/nn/golden/click_models.txt");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::vector<double> numbers;
    for (size_t i = 1; i < words.size(); ++i) {
      double number = 0;
      if (absl::SimpleAtod(words[i], &number)) numbers.push_back(number);
    }
    if (words[0] == "model") {
      model = &models[words[1]];
      model->seed = words[2];
      model->loss = numbers.back();
    } else if (words[0] != "#") {
      model->gradients[words[0]] = numbers;
    }
  }
  return models;
}

// FNV-1a of the name and the seed, then SplitMix64, as in tools/make_golden_gradients.py.
uint64_t BitsOf(absl::string_view name, absl::string_view seed, size_t index) {
  uint64_t key = 0xcbf29ce484222325u;
  for (char c : absl::StrCat(name, "#", seed)) {
    key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return MixBits(key + static_cast<uint64_t>(index + 1) * 0x9e3779b97f4a7c15u);
}

Tensor ValueOf(absl::string_view name, absl::string_view seed, const Shape& shape, double radius) {
  Tensor tensor(DataType::kFloat32, shape);
  size_t i = 0;
  for (float& element : tensor.mutable_span<float>()) {
    const double unit = static_cast<double>(BitsOf(name, seed, i++) >> 40) / 16777216.0;
    element = static_cast<float>(radius * (2 * unit - 1));
  }
  return tensor;
}

std::vector<double> SketchOf(absl::string_view name, const Tensor& gradient) {
  const absl::Span<const float> values = gradient.span<float>();
  if (values.size() <= kNumSums) return {values.begin(), values.end()};
  std::vector<double> sums(kNumSums);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = BitsOf(name, "sketch", i);
    sums[bits % kNumSums] += bits >> 63 == 1 ? -values[i] : values[i];
  }
  return sums;
}

v1::RunConfig Parse(const std::string& text) {
  v1::RunConfig run;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &run)) << text;
  return run;
}

std::vector<FieldSpec> Fields() {
  return {{kInputField, {DataType::kFloat32, {5}}},
          RaggedField("a"),
          RaggedField("b"),
          {kLabelField, {DataType::kInt32, {}}}};
}

// The columns of the batch: rows in the compact matrix, row numbers, offsets.
struct Column {
  int64_t rows;
  std::vector<int32_t> indices;
  std::vector<int64_t> offsets;
};
const std::map<std::string, Column>& Columns() {
  static const auto& columns =
      *new std::map<std::string, Column>{{"a", {7, {0, 3, 6, 2, 2, 1, 5}, {0, 1, 3, 3, 4, 6, 7}}},
                                         {"b", {4, {3, 0, 1, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6}}}};
  return columns;
}

template <typename T>
Tensor TensorOf(DataType dtype, const std::vector<T>& values) {
  Tensor tensor(dtype, Shape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.mutable_span<T>().begin());
  return tensor;
}

// A model in training on the batch, with its gradients by variable and table.
class Training {
 public:
  Training(const v1::RunConfig& run, const std::string& seed) {
    const auto model = MakeModel(run.model(), Fields(), 2, {}, &run.table());
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return;
    GraphBuilder builder(&graph_);
    InputQueue queue(Fields());
    const std::vector<Output> batch = queue.Dequeue(builder);
    const ModelOutputs outputs = (*model)(builder, batch, true);
    std::vector<Output> trained = graph_.Collection(kTrainableVariables);
    for (const TableInput& table : graph_.table_inputs()) trained.push_back(table.rows);
    const auto gradients = BuildGradients(builder, outputs.loss, trained);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (!gradients.ok()) return;
    Feed(batch, seed);
    for (const Variable& variable : graph_.variables()) {
      const VariableSpec& spec = variable.spec;
      const double radius =
          spec.shape.rank() < 2 ? 0.1 : std::sqrt(6 / FanOf(spec.shape.dims()).in);
      variables_.push_back(ValueOf(spec.name, seed, spec.shape, radius));
    }
    std::vector<Output> fetches = {outputs.loss};
    fetches.insert(fetches.end(), gradients->begin(), gradients->end());
    const KernelBackend cpu = CpuKernelBackend();
    const auto executable = Compile(MakeRequest(graph_, cpu, feeds_, fetches));
    EXPECT_TRUE(executable.ok()) << executable.status();
    if (!executable.ok()) return;
    const std::vector<Tensor> got = RunOnce(executable->get(), feeds_, variables_);
    loss = got[0].span<float>()[0];
    for (size_t i = 0; i < trained.size(); ++i) this->gradients[trained[i].name()] = got[i + 1];
  }

  double loss = 0;
  std::map<std::string, Tensor> gradients;

 private:
  void Feed(const std::vector<Output>& batch, const std::string& seed) {
    const std::vector<FieldSpec> fields = Fields();
    feeds_.emplace_back(batch[0], ValueOf("input", seed, {kBatch, 5}, 1));
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < kBatch; ++i) {
      labels.push_back(static_cast<int32_t>(BitsOf("label", seed, static_cast<size_t>(i)) % 2));
    }
    feeds_.emplace_back(FindField(fields, batch, kLabelField).values,
                        TensorOf(DataType::kInt32, labels));
    for (const auto& [name, column] : Columns()) {
      feeds_.emplace_back(FindField(fields, batch, name).offsets,
                          TensorOf(DataType::kInt64, column.offsets));
    }
    for (const TableInput& table : graph_.table_inputs()) {
      const Column& column = Columns().at(table.lookups[0].column);
      feeds_.emplace_back(table.rows,
                          ValueOf(table.rows.name(), seed, {column.rows, table.dim}, 0.5));
      feeds_.emplace_back(table.lookups[0].indices, TensorOf(DataType::kInt32, column.indices));
    }
  }

  Graph graph_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Tensor> variables_;
};

TEST(ClickModelsTest, LossAndGradientsAreThoseOfPyTorch) {
  const std::pair<const char*, const char*> models[] = {
      {"wide_deep", "wide_"}, {"deepfm", "wide_"}, {"dlrm", ""}, {"dcn_v2", ""}};
  const std::map<std::string, Golden> golden = ReadGolden();
  for (const auto& [name, wide] : models) {
    SCOPED_TRACE(name);
    ASSERT_EQ(golden.count(name), 1u);
    const Golden& wanted = golden.at(name);
    const std::string deep = *wide == '\0' ? "*" : "deep_*";
    std::string text = absl::StrCat("model { name: '", name,
                                    "' loss: 'sigmoid_cross_entropy' feature { column: '*' name: '",
                                    deep, "' table: '", deep, "' } ");
    if (*wide != '\0') text += "feature { column: '*' name: 'wide_*' table: 'wide_*' } ";
    absl::StrAppend(&text, "} table { name: '", deep, "' dim: 4 } ");
    if (*wide != '\0') text += "table { name: 'wide_*' dim: 1 }";
    const Training training(Parse(text), wanted.seed);
    EXPECT_NEAR(training.loss, wanted.loss, 1e-5 * wanted.loss);
    ASSERT_EQ(training.gradients.size(), wanted.gradients.size());
    for (const auto& [variable, gradient] : training.gradients) {
      ASSERT_EQ(wanted.gradients.count(variable), 1u) << variable;
      const std::vector<double>& numbers = wanted.gradients.at(variable);
      const std::vector<double> sketch = SketchOf(variable, gradient);
      ASSERT_EQ(sketch.size() + 1, numbers.size()) << variable;
      double error = 0;
      for (size_t i = 0; i < sketch.size(); ++i) {
        error += (sketch[i] - numbers[i + 1]) * (sketch[i] - numbers[i + 1]);
      }
      EXPECT_LE(std::sqrt(error), 1e-5 * numbers[0]) << variable;
    }
  }
}

TEST(ClickModelsTest, ADesignedModelOfTheRunFileTrains) {
  const Training training(Parse(R"(
      table { name: "item" dim: 16 optimizer { rowwise_adagrad { learning_rate: 0.05 } }
              initializer { normal { stddev: 0.01 } } }
      model {
        feature { name: "clicked" column: "a" table: "item" pooling: POOLING_MEAN }
        layer { name: "bottom" input: "input" dense { units: 16 } }
        layer { interaction { dot {} } }
        layer { dense { units: 1 } }
        loss: "sigmoid_cross_entropy" })"),
                          "1");
  EXPECT_TRUE(std::isfinite(training.loss));
  EXPECT_EQ(training.gradients.at("tables/item").shape(), Shape({7, 16}));
}

// Returns the message for a run with this model and a table "t" of dim 4.
std::string ErrorOf(const std::string& model) {
  const v1::RunConfig run =
      Parse("table { name: 't' dim: 4 } table { name: 'u_*' dim: 2 } model { " + model +
            " loss: 'sigmoid_cross_entropy' }");
  return std::string(MakeModel(run.model(), Fields(), 2, {}, &run.table()).status().message());
}

TEST(ClickModelsTest, AFeatureThatDoesNotFitTheDataIsNamed) {
  const std::string a = "feature { column: 'a' table: 't' } ";
  const std::string last = " layer { dense { units: 1 } }";
  EXPECT_EQ(ErrorOf(a + "layer { input: 'a' dense { units: 1 } }"), "");
  EXPECT_EQ(ErrorOf(a + "layer { input: '*' input: 'input' concat {} }" + last), "");
  EXPECT_THAT(
      ErrorOf("feature { column: 'c' table: 't' }" + last),
      HasSubstr("model.feature[0].column: \"c\" is not a column of the data; those with ids "
                "are a, b"));
  EXPECT_THAT(ErrorOf("feature { column: 'input' table: 't' }" + last),
              HasSubstr("model.feature[0].column: input is float32[5] and has no ids"));
  EXPECT_THAT(ErrorOf("feature { column: 'a' table: 'v' }" + last),
              HasSubstr("model.feature[0].table: the run has no table \"v\""));
  EXPECT_THAT(ErrorOf("feature { column: 'a' table: 't t' }" + last),
              HasSubstr("model.feature[0].table: \"t t\" must be 1 to 128 letters, digits, '_', "
                        "'-' or '.'; name another table"));
  EXPECT_THAT(ErrorOf("feature { column: '*' table: 'u *' }" + last),
              HasSubstr("\"u a\" must be 1 to 128 letters, digits, '_', '-' or '.'; name another "
                        "table, or rename the column: ids { column: \"a\" name: \"NAME\" }"));
  EXPECT_THAT(ErrorOf(a + a + last), HasSubstr("model.feature[1].name: \"a\" is the name of"));
  EXPECT_THAT(ErrorOf(a + "layer { input: 'b' dense { units: 1 } }"),
              HasSubstr("input 'b' is not the name of an earlier layer or a feature"));
  EXPECT_THAT(ErrorOf(a + "layer { interaction { dot {} } }" + last),
              HasSubstr("'interaction1': takes vectors of one length, but the input has 5 and the "
                        "feature a has 4; change the dim of the table or the units of the layer"));
  EXPECT_THAT(
      ErrorOf(a + "feature { column: 'b' table: 'u_b' } layer { input: '*' add {} }" + last),
      HasSubstr("'add1': takes vectors of one length, but the feature a has 4 and the "
                "feature b has 2; change"));
  EXPECT_THAT(ErrorOf(a +
                      "layer { name: 'x' dense { units: 3 } } "
                      "layer { interaction { factorization_machine {} } }" +
                      last),
              HasSubstr("but the layer x has 3 and the feature a has 4; change"));
  EXPECT_THAT(ErrorOf(a + "layer { interaction {} }" + last), HasSubstr("has no kind; write dot"));
  EXPECT_THAT(ErrorOf(a + "layer { input: 'a' interaction { factorization_machine {} } }" + last),
              HasSubstr("needs two inputs or more"));
  EXPECT_THAT(ErrorOf(a + "name: 'mlp'"), HasSubstr("mlp takes no features"));
  EXPECT_THAT(ErrorOf("name: 'dlrm'"), HasSubstr("dlrm needs features"));
}

TEST(ClickModelsTest, TablesOfTheWrongDimAreNamedWithTheRightOne) {
  const std::string wide = "feature { name: 'wide_*' column: '*' table: 'u_*' } ";
  const std::string deep = "feature { name: 'deep_*' column: '*' table: 't' } ";
  for (const std::string name : {"wide_deep", "deepfm"}) {
    const std::string model = "name: '" + name + "' ";
    EXPECT_EQ(ErrorOf(model + wide + deep),
              "model: " + name +
                  " adds the features wide_*, which are one number each, but wide_a has 2; give "
                  "their tables dim 1, as table { name: \"wide_*\" dim: 1 }");
    EXPECT_THAT(ErrorOf(model + deep),
                HasSubstr(name + " needs features named wide_* and others named deep_*; add "
                                 "feature { name: \"wide_*\""));
  }
  EXPECT_THAT(ErrorOf("name: 'dlrm' feature { column: 'a' table: 't' } "
                      "feature { column: 'b' table: 'u_b' }"),
              HasSubstr("takes vectors of one length, but "));
}

TEST(ClickModelsTest, AModelOfClicksWithoutIdsNamesTheFieldThatHasThem) {
  const v1::RunConfig run =
      Parse("table { name: 't' dim: 4 } model { feature { column: '*' table: 't' } }");
  const std::vector<FieldSpec> fields = {{kInputField, {DataType::kFloat32, {5}}},
                                         {kLabelField, {DataType::kInt32, {}}}};
  EXPECT_THAT(std::string(ResolveFeatures(run.model(), run.table(), fields).status().message()),
              HasSubstr("none; name them with data { ids {"));
}

TEST(ClickModelsTest, PatternsStandForColumnsAndTables) {
  const v1::RunConfig run = Parse(
      "model { feature { name: 'x_*' column: '*' table: 'u_*' pooling: POOLING_MEAN } } "
      "table { name: 'u_*' dim: 2 } table { name: 'u_b' dim: 3 }");
  const auto features = ResolveFeatures(run.model(), run.table(), Fields());
  ASSERT_TRUE(features.ok()) << features.status();
  ASSERT_EQ(features->size(), 2u);
  EXPECT_EQ((*features)[0].name, "x_a");
  EXPECT_EQ((*features)[0].embedding.table, "u_a");
  EXPECT_EQ((*features)[0].embedding.dim, 2);
  EXPECT_EQ((*features)[0].embedding.pooling, Pooling::kMean);
  EXPECT_EQ((*features)[1].embedding.table, "u_b");
  EXPECT_EQ((*features)[1].embedding.dim, 3);
}

}  // namespace
}  // namespace shoal
