// Compares gradients of the zoo's models with PyTorch's in float64, for the same weights and
// inputs. tools/make_golden_gradients.py makes the files of ml/nn/golden and explains what a sketch
// is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "base/hash.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/cuda/cuda_kernels.h"
#include "ml/nn/losses.h"
#include "ml/nn/zoo.h"

namespace shoal {
namespace {

constexpr int kNumSums = 16;
// The smallest error bound: a float32 gradient may always differ by two units of its last place,
// because PyTorch's error in a tensor of one element is sometimes zero.
constexpr double kLastPlaces = 2.4e-7;
// The error bounds, as multiples of PyTorch's error on a CPU with AVX-512, whose vectors add the
// terms of a sum in 16 parts. With fewer parts more terms are added one after the other, so errors
// are larger: up to 5.7 times PyTorch's with AVX2, and 3.7 times on an H100.
constexpr double kAvx512Bound = 2, kNarrowBound = 8, kGpuBound = 5;

double BoundOf(const KernelBackend* gpu) {
  if (gpu != nullptr) return kGpuBound;
  return absl::StrContains(CpuKernelBackend().libraries, "avx512") ? kAvx512Bound : kNarrowBound;
}

struct GoldenGradient {
  std::string variable;
  int64_t elements = 0;
  double norm = 0;
  double float32_error = 0;  // PyTorch's
  std::vector<double> sketch;
};

struct Golden {
  std::string seed;
  int64_t batch = 0;
  int64_t classes = 0;
  double loss = 0;
  Shape example;
  std::vector<GoldenGradient> gradients;
};

double Number(absl::string_view text) {
  double number = NAN;
  EXPECT_TRUE(absl::SimpleAtod(text, &number)) << text;
  return number;
}

GoldenGradient ParseGradient(const std::vector<std::string>& words) {
  GoldenGradient gradient;
  gradient.variable = words[0];
  gradient.elements = static_cast<int64_t>(Number(words[1]));
  gradient.norm = Number(words[2]);
  gradient.float32_error = Number(words[3]);
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(words[4], &bytes));
  gradient.sketch.resize(bytes.size() / sizeof(double));
  std::memcpy(gradient.sketch.data(), bytes.data(), gradient.sketch.size() * sizeof(double));
  return gradient;
}

std::vector<Golden> ReadGolden(const std::string& model) {
  std::vector<Golden> draws;
  std::ifstream file(absl::StrCat("ml/nn/golden/", model, ".txt"));
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "#")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] != "draw") {
      draws.back().gradients.push_back(ParseGradient(words));
      continue;
    }
    Golden& golden = draws.emplace_back();
    golden.seed = words[1];
    golden.batch = static_cast<int64_t>(Number(words[2]));
    golden.classes = static_cast<int64_t>(Number(words[3]));
    golden.loss = Number(words[4]);
    for (size_t i = 5; i < words.size(); ++i) {
      golden.example.AddDim(static_cast<int64_t>(Number(words[i])));
    }
  }
  return draws;
}

// FNV-1a of the name and the seed.
uint64_t KeyOf(absl::string_view name, absl::string_view seed) {
  uint64_t key = 0xcbf29ce484222325u;
  for (char c : absl::StrCat(name, "#", seed)) {
    key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return key;
}

uint64_t BitsOf(uint64_t key, int64_t index) {
  return MixBits(key + static_cast<uint64_t>(index + 1) * 0x9e3779b97f4a7c15u);
}

// Uniform in center +- radius.
Tensor ValueOf(absl::string_view name, absl::string_view seed, const Shape& shape, double center,
               double radius) {
  Tensor tensor(DataType::kFloat32, shape);
  const uint64_t key = KeyOf(name, seed);
  int64_t i = 0;
  for (float& element : tensor.mutable_span<float>()) {
    const double unit = static_cast<double>(BitsOf(key, i++) >> 40) / 16777216.0;
    element = static_cast<float>(center + radius * (2 * unit - 1));
  }
  return tensor;
}

Tensor WeightsOf(const VariableSpec& spec, const std::string& seed) {
  if (absl::EndsWith(spec.name, "gamma")) return ValueOf(spec.name, seed, spec.shape, 1, 0.25);
  if (absl::EndsWith(spec.name, "beta")) return ValueOf(spec.name, seed, spec.shape, 2, 0.5);
  if (spec.shape.rank() < 2) return ValueOf(spec.name, seed, spec.shape, 0, 0.1);
  const Fan fan = FanOf(spec.shape.dims());
  return ValueOf(spec.name, seed, spec.shape, 0, std::sqrt(6 / fan.in));
}

std::vector<double> SketchOf(absl::string_view name, const Tensor& gradient) {
  const absl::Span<const float> values = gradient.span<float>();
  if (values.size() <= kNumSums) return {values.begin(), values.end()};
  std::vector<double> sums(kNumSums);
  const uint64_t key = KeyOf(name, "sketch");
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = BitsOf(key, static_cast<int64_t>(i));
    sums[bits % kNumSums] += bits >> 63 == 1 ? -values[i] : values[i];
  }
  return sums;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The model with its loss and gradients, and a batch.
struct Training {
  Graph graph;
  std::vector<Output> fetches;  // the loss, then a gradient per variable that has one
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Tensor> variables;

  Training(const std::string& model, const Golden& golden) {
    GraphBuilder builder(&graph);
    const Output input = Feed(builder, "input", InputOf(golden));
    const bool is_regression = golden.classes == 0;
    const Output wanted =
        is_regression
            ? Feed(builder, "target", ValueOf("target", golden.seed, {golden.batch, 1}, 0, 1))
            : Feed(builder, "label", LabelsOf(golden));
    zoo::ModelOptions options;
    options.classes = golden.classes;
    options.dropout_rate = 0;
    const LossKind loss =
        is_regression ? LossKind::kMeanSquaredError : LossKind::kSparseSoftmaxCrossEntropy;
    AddLoss(builder, loss, zoo::Build(builder, model, input, options), wanted);
    std::vector<Output> losses = graph.Collection(kLosses);
    for (const Output& output : graph.Collection(kRegularizationLosses)) losses.push_back(output);
    fetches = {ops::AddN(builder, losses)};
    const auto gradients =
        BuildGradients(builder, fetches[0], graph.Collection(kTrainableVariables));
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    fetches.insert(fetches.end(), gradients->begin(), gradients->end());
    for (const Variable& variable : graph.variables()) {
      variables.push_back(WeightsOf(variable.spec, golden.seed));
    }
  }

  Output Feed(GraphBuilder& builder, const char* name, Tensor tensor) {
    Shape shape = tensor.shape();
    shape.set_dim(0, kUnknownDim);
    const Output placeholder = builder.Placeholder(name, tensor.dtype(), shape);
    feeds.emplace_back(placeholder, std::move(tensor));
    return placeholder;
  }

  static Tensor InputOf(const Golden& golden) {
    Shape shape({golden.batch});
    for (int64_t dim : golden.example.dims()) shape.AddDim(dim);
    return ValueOf("input", golden.seed, shape, 0, 1);
  }

  static Tensor LabelsOf(const Golden& golden) {
    Tensor labels(DataType::kInt32, Shape({golden.batch}));
    const uint64_t key = KeyOf("label", golden.seed);
    for (int64_t i = 0; i < golden.batch; ++i) {
      labels.mutable_span<int32_t>()[i] =
          static_cast<int32_t>(BitsOf(key, i) % static_cast<uint64_t>(golden.classes));
    }
    return labels;
  }
};

class GoldenGradientsTest : public testing::TestWithParam<std::string> {};

// Squares of relative errors of a variable's gradients, summed over the draws.
struct Errors {
  double ours = 0;
  double pytorch = 0;
};

// Runs on the first GPU, or on the CPU if there is no GPU backend. After an error, which it
// reports, it runs nothing.
std::vector<Tensor> Run(const Training& training, const KernelBackend* gpu) {
  const KernelBackend cpu = CpuKernelBackend();
  CompileRequest request = MakeRequest(training.graph, cpu, training.feeds, training.fetches);
  if (gpu != nullptr) {
    request.accelerators = {gpu};
    request.placer.devices = *LocalDevices("worker", 0, {"/cpu:0", "/gpu:0"});
  }
  const absl::StatusOr<std::unique_ptr<Executable>> executable = Compile(request);
  EXPECT_TRUE(executable.ok()) << executable.status();
  if (!executable.ok()) return {};
  std::vector<Tensor> got = RunOnce(executable->get(), training.feeds, training.variables);
  EXPECT_TRUE((*executable)->status().ok()) << (*executable)->status();
  if (!(*executable)->status().ok()) return {};
  return got;
}

void AddErrors(const std::string& model, const Golden& golden, const KernelBackend* gpu,
               std::map<std::string, Errors>* errors) {
  const Training training(model, golden);
  const std::vector<Output> variables = training.graph.Collection(kTrainableVariables);
  ASSERT_EQ(variables.size(), golden.gradients.size());
  const std::vector<Tensor> got = Run(training, gpu);
  ASSERT_EQ(got.size(), training.fetches.size());
  EXPECT_NEAR(got[0].span<float>()[0], golden.loss, 1e-4 * golden.loss);
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::string& name = variables[i].name();
    const auto expected = std::find_if(golden.gradients.begin(), golden.gradients.end(),
                                       [&](const GoldenGradient& g) { return g.variable == name; });
    ASSERT_NE(expected, golden.gradients.end()) << name;
    const Tensor& gradient = got[i + 1];
    ASSERT_EQ(gradient.shape().num_elements(), expected->elements) << name;
    const double error = Distance(SketchOf(name, gradient), expected->sketch) / expected->norm;
    Errors& sums = (*errors)[name];
    sums.ours += error * error;
    sums.pytorch += expected->float32_error * expected->float32_error;
  }
}

void ExpectErrorsNearThoseOfPyTorch(const std::string& model, const KernelBackend* gpu) {
  const double bound = BoundOf(gpu);
  SCOPED_TRACE(gpu == nullptr ? "CPU" : gpu->libraries);
  const std::vector<Golden> draws = ReadGolden(model);
  ASSERT_FALSE(draws.empty());
  std::map<std::string, Errors> errors;
  for (const Golden& golden : draws) AddErrors(model, golden, gpu, &errors);
  const auto mean = [&](double squares) {
    return std::sqrt(squares / static_cast<double>(draws.size()));
  };
  for (const auto& [name, squares] : errors) {
    EXPECT_LE(mean(squares.ours), std::max(kLastPlaces, bound * mean(squares.pytorch)))
        << name << ": PyTorch's in float32 is " << mean(squares.pytorch);
  }
}

// On the CPU, and on a GPU where there is one.
TEST_P(GoldenGradientsTest, ErrorsAreNearThoseOfPyTorchInFloat32) {
  ExpectErrorsNearThoseOfPyTorch(GetParam(), nullptr);
  const absl::StatusOr<KernelBackend> gpu = CudaKernelBackend();
  if (gpu.ok()) ExpectErrorsNearThoseOfPyTorch(GetParam(), &*gpu);
}

std::vector<std::string> AllModels() {
  std::vector<std::string> names;
  for (const zoo::Model& model : zoo::Models()) {
    if (model.features == nullptr) names.push_back(model.name);  // else: click_models_test.cc
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Zoo, GoldenGradientsTest, testing::ValuesIn(AllModels()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shoal
