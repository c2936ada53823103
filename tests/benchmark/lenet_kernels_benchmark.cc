// One training step of LeNet (5x5x32 SAME, pool, 5x5x64 SAME, pool, dense 512, dense 10; 28x28x1)
// as a bare list of kernel calls on one thread: forward, loss, backward and a plain SGD update.
// Prints each kernel's median.
//
//   bazel run //tests/benchmark:lenet_kernels_benchmark -- [rounds] [batch]

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "tests/benchmark/fma_peak.h"
#include "tests/benchmark/kernel_bench.h"

namespace shoal {
namespace {

TensorSpec Floats(const Shape& shape, Layout layout = Layout::kPlain) {
  return {DataType::kFloat32, shape, layout};
}

struct Parameter {
  const char* name;
  Shape shape;
};

const Parameter kParameters[] = {
    {"w1", {32, 1, 5, 5}}, {"b1", {32}},  {"w2", {64, 32, 5, 5}}, {"b2", {64}},
    {"w3", {3136, 512}},   {"b3", {512}}, {"w4", {512, 10}},      {"b4", {10}},
};

void AddBuffers(int64_t n, Layout layout, KernelSequence* step) {
  for (const Parameter& p : kParameters) {
    step->AddBuffer(p.name, Floats(p.shape), 0.05f);
    step->AddBuffer(std::string("d") + p.name, Floats(p.shape), 0.0f);
    step->AddBuffer(std::string("update_") + p.name, Floats(p.shape), 0.0f);
  }
  step->AddBuffer("x", Floats({n, 1, 28, 28}), 1.0f);
  step->AddBuffer("labels", {DataType::kInt32, {n}}, 10.0f);
  step->AddBuffer("dlosses", Floats({n}), 0.01f);
  step->AddBuffer("losses", Floats({n}), 0.0f);
  const auto add_pair = [&](const std::string& name, const TensorSpec& spec) {
    step->AddBuffer(name, spec, 0.0f);
    step->AddBuffer("d" + name, spec, 0.0f);
  };
  add_pair("p1", Floats({n, 32, 14, 14}, layout));
  add_pair("p2", Floats({n, 64, 7, 7}, layout));
  step->AddBuffer("i1", {DataType::kUint8, {n, 32, 14, 14}, layout}, 0.0f);
  step->AddBuffer("i2", {DataType::kUint8, {n, 64, 7, 7}, layout}, 0.0f);
  add_pair("images", Floats({n, 64, 7, 7}));
  step->AddAlias("flat", "images", Floats({n, 3136}));
  step->AddAlias("dflat", "dimages", Floats({n, 3136}));
  add_pair("h", Floats({n, 512}));
  add_pair("logits", Floats({n, 10}));
  step->AddBuffer("probabilities", Floats({n, 10}), 0.0f);
}

void AddKernels(int64_t n, KernelSequence* step) {
  const std::vector<int64_t> two = {2, 2}, pads = {2, 2, 2, 2};
  const Attributes pooled = {
      {"pads", pads}, {"pool_kernel_shape", two}, {"pool_strides", two}, {"relu", true}};
  const Attributes relu = {{"activation", std::string("relu")}};
  step->AddKernel("conv1", "ConvPool", pooled, {"x", "w1", "b1"}, {"p1", "i1"});
  step->AddKernel("conv2", "ConvPool", pooled, {"p1", "w2", "b2"}, {"p2", "i2"});
  step->AddKernel("reorder", "ReorderLayout", {}, {"p2"}, {"images"});
  step->AddKernel("dense3", "Dense", relu, {"flat", "w3", "b3"}, {"h"});
  step->AddKernel("dense4", "Dense", {}, {"h", "w4", "b4"}, {"logits"});
  step->AddKernel("loss", "SparseSoftmaxCrossEntropy", {}, {"logits", "labels"},
                  {"losses", "probabilities"});
  step->AddKernel("loss gradient", "SparseSoftmaxCrossEntropyGrad", {},
                  {"probabilities", "labels", "dlosses"}, {"dlogits"});
  step->AddKernel("dense4 gradient", "DenseGrad", {}, {"h", "w4", "logits", "dlogits"},
                  {"dh", "dw4", "db4"});
  step->AddKernel("dense3 gradient", "DenseGrad", relu, {"flat", "w3", "h", "dh"},
                  {"dflat", "dw3", "db3"});
  step->AddKernel("reorder gradient", "ReorderLayout", {}, {"dimages"}, {"dp2"});
  step->AddKernel("conv2 gradient", "ConvPoolGrad", pooled, {"p1", "w2", "i2", "dp2"},
                  {"dp1", "dw2", "db2"});
  step->AddKernel("conv1 gradient", "ConvPoolGrad", pooled, {"x", "w1", "i1", "dp1"},
                  {"", "dw1", "db1"}, Floats({n, 1, 28, 28}));
  for (const Parameter& p : kParameters) {
    const std::string name = p.name;
    step->AddKernel("update " + name, "Scale", {{"factor", -0.01}}, {"d" + name},
                    {"update_" + name});
    step->AddKernel("update " + name, "AddN", {}, {name, "update_" + name}, {name});
  }
}

int Main(int rounds, int64_t batch) {
  cpu::SetOmpThreads(1);
  const Layout layout =
      cpu::DetectCpuIsa() == cpu::CpuIsa::kAvx512 ? Layout::kBlocked16 : Layout::kPlain;
  KernelSequence step(1);
  AddBuffers(batch, layout, &step);
  AddKernels(batch, &step);
  std::vector<double> seconds, peaks;
  step.Run();
  for (int r = 0; r < rounds; ++r) {
    peaks.push_back(MeasureFmaPeak());
    const double start = ThreadCpuSeconds();
    step.Run();
    seconds.push_back(ThreadCpuSeconds() - start);
  }
  std::printf("%s\n", cpu::CpuIsaName().c_str());
  double updates = 0.0;
  for (const KernelSequence::Timing& timing : step.timings()) {
    if (timing.label.rfind("update", 0) == 0) {
      updates += Median(timing.seconds);
    } else {
      std::printf("%-24s %8.3f ms\n", timing.label.c_str(), 1e3 * Median(timing.seconds));
    }
  }
  std::printf("%-24s %8.3f ms\n", "updates", 1e3 * updates);
  std::printf("step %.2f ms (median of %d), FMA peak %.1f GF/s\n", 1e3 * Median(seconds), rounds,
              1e-9 * Median(peaks));
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  return shoal::Main(argc > 1 ? std::atoi(argv[1]) : 30, argc > 2 ? std::atoll(argv[2]) : 128);
}
