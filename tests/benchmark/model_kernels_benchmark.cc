// Shows where a training step of a convolutional model spends its time: the milliseconds of each
// op, and of each kernel whose share of the step is large enough.
//
// usage: model_kernels_benchmark MODEL [BATCH=32] [STEPS=10]    MODEL: mobilenet_v2 (96x96 images),
// resnet18, resnet50 (64x64)
// One thread, its CPU time; forward, loss and gradients, without the update.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "ml/graph/compiler.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/losses.h"
#include "ml/nn/zoo.h"

namespace shoal {
namespace {

struct Timing {
  std::string op, name;
  absl::Duration total;
};

// CPU time: other work on the machine counts less.
absl::Duration ThreadCpuTime() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

// Adds up the time of another kernel.
class TimedKernel : public Kernel {
 public:
  TimedKernel(std::unique_ptr<Kernel> kernel, Timing* timing)
      : kernel_(std::move(kernel)), timing_(timing) {}
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void Run(const KernelContext& context) override {
    const absl::Duration start = ThreadCpuTime();
    kernel_->Run(context);
    timing_->total += ThreadCpuTime() - start;
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  Timing* const timing_;
};

std::string NameOf(const KernelRequest& request) {
  std::string name(request.op);
  for (const TensorSpec& spec : request.inputs.subspan(0, 2)) {
    absl::StrAppend(&name, " ", spec.ToString());
  }
  absl::StrAppend(&name, " -> ", request.outputs[0].ToString());
  for (const char* attribute : {"strides", "group", "activation"}) {
    const auto it = request.attributes->values().find(attribute);
    if (it == request.attributes->values().end()) continue;
    absl::StrAppend(&name, " ", Attributes({{attribute, it->second}}).ToString());
  }
  return name;
}

class ModelBenchmark {
 public:
  ModelBenchmark(const std::string& model, int64_t batch);
  void Run(int steps);
  void Print(int steps) const;

 private:
  Graph graph_;
  std::vector<std::unique_ptr<Timing>> timings_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Tensor> variables_, results_;
  std::unique_ptr<Executable> executable_;
  std::vector<double> step_milliseconds_;
};

ModelBenchmark::ModelBenchmark(const std::string& model, int64_t batch) {
  GraphBuilder builder(&graph_);
  const int64_t size = model == "mobilenet_v2" ? 96 : 64;
  const Output images = builder.Placeholder("x", DataType::kFloat32, {kUnknownDim, 3, size, size});
  const Output labels = builder.Placeholder("labels", DataType::kInt32, {kUnknownDim});
  const Output logits = zoo::Build(builder, model, images, {});
  std::vector<Output> fetches = {
      AddLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, logits, labels)};
  const auto gradients =
      BuildGradients(builder, fetches[0], graph_.Collection(kTrainableVariables));
  CHECK(gradients.ok()) << gradients.status();
  fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  for (const Output& update : graph_.Collection(kUpdateOps)) fetches.push_back(update);
  Tensor classes(DataType::kInt32, {batch});
  for (int64_t i = 0; i < batch; ++i) {
    classes.mutable_span<int32_t>()[i] = static_cast<int32_t>(i * 37 % 1000);
  }
  feeds_ = {{images, RandomTensor(DataType::kFloat32, {batch, 3, size, size}, 3)},
            {labels, classes}};
  variables_ = InitialValues(graph_, 17);
  KernelBackend backend = CpuKernelBackend();
  const KernelFactory create = backend.create_kernel;
  backend.create_kernel =
      [this, create](const KernelRequest& request) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = create(request);
    if (!kernel.ok()) return kernel;
    timings_.push_back(std::make_unique<Timing>());
    timings_.back()->op = std::string(request.op);
    timings_.back()->name = NameOf(request);
    return {std::make_unique<TimedKernel>(*std::move(kernel), timings_.back().get())};
  };
  auto executable = Compile(MakeRequest(graph_, backend, feeds_, fetches));
  CHECK(executable.ok()) << executable.status();
  executable_ = *std::move(executable);
}

void ModelBenchmark::Run(int steps) {
  std::vector<const void*> inputs, values;
  std::vector<void*> outputs;
  for (const auto& feed : feeds_) inputs.push_back(feed.second.data());
  for (const Tensor& variable : variables_) values.push_back(variable.data());
  for (const TensorSpec& spec : executable_->output_specs()) results_.emplace_back(spec);
  for (Tensor& result : results_) outputs.push_back(result.mutable_data());
  for (int i = -2; i < steps; ++i) {
    if (i == 0) {
      for (const auto& timing : timings_) timing->total = absl::ZeroDuration();
    }
    const absl::Time start = absl::Now();
    executable_->Run({inputs, values, outputs, {}}, [](int, int64_t) {});
    if (i >= 0) step_milliseconds_.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
  }
}

void ModelBenchmark::Print(int steps) const {
  std::vector<double> sorted = step_milliseconds_;
  std::sort(sorted.begin(), sorted.end());
  std::printf("step: median %.2f ms, least %.2f ms\n", sorted[sorted.size() / 2], sorted[0]);
  std::map<std::string, double> of_op, of_kernel;
  double total = 0;
  for (const auto& timing : timings_) {
    const double milliseconds = absl::ToDoubleMilliseconds(timing->total) / steps;
    of_op[timing->op] += milliseconds;
    of_kernel[timing->name] += milliseconds;
    total += milliseconds;
  }
  const auto print = [total](const std::map<std::string, double>& times, double least) {
    std::vector<std::pair<double, std::string>> rows;
    for (const auto& [name, milliseconds] : times) rows.emplace_back(milliseconds, name);
    std::sort(rows.rbegin(), rows.rend());
    for (const auto& [milliseconds, name] : rows) {
      if (milliseconds >= least * total) std::printf("%8.2f ms  %s\n", milliseconds, name.c_str());
    }
  };
  std::printf("%8.2f ms in kernels\n", total);
  print(of_op, 0);
  std::printf("kernels of one kind above 0.5 %%:\n");
  print(of_kernel, 0.005);
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  int64_t batch = 32;
  int steps = 10;
  const std::string model = argc > 1 ? argv[1] : "";
  const bool is_known = model == "mobilenet_v2" || model == "resnet18" || model == "resnet50";
  if (!is_known || (argc > 2 && !absl::SimpleAtoi(argv[2], &batch)) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &steps)) || batch < 1 || steps < 1) {
    std::fprintf(stderr,
                 "usage: model_kernels_benchmark mobilenet_v2|resnet18|resnet50 [BATCH] [STEPS]\n");
    return 64;
  }
  shoal::ModelBenchmark benchmark(model, batch);
  benchmark.Run(steps);
  benchmark.Print(steps);
  return 0;
}
