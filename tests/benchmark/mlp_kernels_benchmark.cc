// One training step of the 600-512-128-128-1 network (scalar biases, ReLU, squared error, batch
// 2000) as a bare list of kernel calls on one thread: forward, loss, backward; no graph, no update.
// Prints each kernel's median and the share of the core's multiply-add peak, which is measured
// before each step.
//
//   bazel run //tests/benchmark:mlp_kernels_benchmark -- [rounds] [batch]

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

const int64_t kWidths[] = {600, 512, 128, 128, 1};
constexpr int kLayers = 4;

TensorSpec Floats(const Shape& shape) { return {DataType::kFloat32, shape}; }

std::string Name(const char* prefix, int layer) { return prefix + std::to_string(layer); }

void AddBuffers(int64_t batch, KernelSequence* step) {
  step->AddBuffer("x0", Floats({batch, kWidths[0]}), 1.0f);
  step->AddBuffer("dx0", Floats({batch, kWidths[0]}), 0.0f);
  step->AddBuffer("target", Floats({batch, 1}), 1.0f);
  step->AddBuffer("loss", Floats({}), 0.0f);
  step->AddBuffer("dloss", Floats({}), 1.0f);
  for (int l = 0; l < kLayers; ++l) {
    const Shape weights({kWidths[l], kWidths[l + 1]});
    step->AddBuffer(Name("w", l), Floats(weights), 0.05f);
    step->AddBuffer(Name("dw", l), Floats(weights), 0.0f);
    step->AddBuffer(Name("b", l), Floats({}), 0.1f);
    step->AddBuffer(Name("db", l), Floats({}), 0.0f);
    step->AddBuffer(Name("x", l + 1), Floats({batch, kWidths[l + 1]}), 0.0f);
    step->AddBuffer(Name("dx", l + 1), Floats({batch, kWidths[l + 1]}), 0.0f);
  }
}

// The DenseGrad of the next layer, whose input is the output of a hidden layer's ReLU, also
// computes this ReLU's gradient (input_relu), while the chunk is in the cache.
void AddKernels(int64_t batch, KernelSequence* step) {
  for (int l = 0; l < kLayers; ++l) {
    const std::string activation = l + 1 < kLayers ? "relu" : "none";
    step->AddKernel(Name("Dense ", l), "Dense", {{"activation", activation}},
                    {Name("x", l), Name("w", l), Name("b", l)}, {Name("x", l + 1)});
  }
  step->AddKernel("MeanSquaredError", "MeanSquaredError", {}, {"x4", "target"}, {"loss"});
  step->AddKernel("MeanSquaredErrorGrad", "MeanSquaredErrorGrad", {}, {"x4", "target", "dloss"},
                  {"dx4"});
  for (int l = kLayers - 1; l >= 0; --l) {
    step->AddKernel(
        Name("DenseGrad ", l), "DenseGrad",
        {{"activation", std::string("none")}, {"has_bias", true}, {"input_relu", l > 0}},
        {Name("x", l), Name("w", l), Name("x", l + 1), Name("dx", l + 1)},
        {l > 0 ? Name("dx", l) : "", Name("dw", l), Name("db", l)}, Floats({batch, kWidths[l]}));
  }
}

double Operations(int64_t batch) {
  double products = 0.0;
  for (int l = 0; l < kLayers; ++l) {
    const double size = 2.0 * static_cast<double>(batch * kWidths[l] * kWidths[l + 1]);
    products += l > 0 ? 3 * size : 2 * size;
  }
  return products;
}

int Main(int rounds, int64_t batch) {
  cpu::SetOmpThreads(1);
  KernelSequence step(1);
  AddBuffers(batch, &step);
  AddKernels(batch, &step);
  std::vector<double> ratios, seconds, peaks;
  step.Run();
  for (int r = 0; r < rounds; ++r) {
    const double before = MeasureFmaPeak();
    const double start = ThreadCpuSeconds();
    step.Run();
    seconds.push_back(ThreadCpuSeconds() - start);
    peaks.push_back(0.5 * (before + MeasureFmaPeak()));
    ratios.push_back(Operations(batch) / seconds.back() / peaks.back());
  }
  std::printf("%s\n", cpu::CpuIsaName().c_str());
  for (const KernelSequence::Timing& timing : step.timings()) {
    std::printf("%-24s %8.3f ms\n", timing.label.c_str(), 1e3 * Median(timing.seconds));
  }
  std::printf("step %.2f ms, %.2f GFLOP, FMA peak %.1f GF/s, share of peak %.3f\n",
              1e3 * Median(seconds), 1e-9 * Operations(batch), 1e-9 * Median(peaks),
              Median(ratios));
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  return shoal::Main(argc > 1 ? std::atoi(argv[1]) : 30, argc > 2 ? std::atoll(argv[2]) : 2000);
}
