// Tests that a sum over devices waits for the slowest of them while its own device continues.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "base/notification.h"
#include "ml/device/simulated_device.h"
#include "ml/graph/compiler.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal {
namespace {

// The functions to call before and after the kernels of an op.
struct Script {
  std::function<void()> before, after;
};

class ScriptedKernel : public Kernel {
 public:
  ScriptedKernel(std::unique_ptr<Kernel> kernel, Script script)
      : kernel_(std::move(kernel)), script_(std::move(script)) {}

  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void Run(const KernelContext& context) override {
    if (script_.before) script_.before();
    kernel_->Run(context);
    if (script_.after) script_.after();
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const Script script_;
};

// Kernels of the CPU, some of them scripted by their op.
KernelBackend ScriptedBackend(std::map<std::string, Script> scripts) {
  KernelBackend backend = CpuKernelBackend();
  backend.create_kernel =
      [create = backend.create_kernel, scripts = std::move(scripts)](
          const KernelRequest& request) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = create(request);
    const auto script = scripts.find(std::string(request.op));
    if (!kernel.ok() || script == scripts.end()) return kernel;
    return std::make_unique<ScriptedKernel>(*std::move(kernel), script->second);
  };
  return backend;
}

TEST(LateSumTest, ADeviceContinuesWhileTheSumOfItsGradientWaitsForAnother) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim}));
  Output mine, other, sum, later;
  {
    const auto device = builder.WithDevice("/cpu:0");
    mine = builder.Op("Abs", {x});
  }
  {
    const auto device = builder.WithDevice("/cpu:1");
    other = builder.Op("Exp", {x});
  }
  {
    const auto device = builder.WithDevice("/cpu:0");
    sum = ops::AddN(builder, {mine, other});
    // Needs memory, which must not be that of the sum's input.
    later = builder.Op("Tanh", {builder.Op("Sqrt", {builder.Op("Square", {x})})});
  }
  ASSERT_TRUE(builder.status().ok()) << builder.status();

  // The other device's part comes when this one's last step is done.
  Notification done;
  const KernelBackend backend =
      ScriptedBackend({{"Exp", {[&] { EXPECT_TRUE(done.WaitFor(absl::Seconds(20))); }, nullptr}},
                       {"Tanh", {nullptr, [&] { done.Notify(); }}}});
  const std::vector<std::pair<Output, Tensor>> feeds = {
      {x, Tensor::Of<float>({4}, {-1, 2, -3, 4})}};
  const std::vector<Output> fetches = {sum, later};
  const auto two = Compile(MakeRequest(graph, backend, feeds, fetches, 2));
  ASSERT_TRUE(two.ok()) << two.status();
  const std::vector<Tensor> values = RunOnce(two->get(), feeds, {});

  const KernelBackend plain = CpuKernelBackend();
  const auto one = RunGraph(graph, plain, feeds, {}, fetches);
  ASSERT_TRUE(one.ok()) << one.status();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LT(RelativeDistance(values[i], (*one)[i]), 1e-6);
}

// The copy that the sum needs is in the other device's queue but has not happened.
TEST(LateSumTest, ADeviceOfTheHostContinuesWhileACopyFromAnotherIsUnderWay) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim}));
  Output mine, other, behind, sum, later;
  {
    const auto device = builder.WithDevice("/cpu:0");
    mine = builder.Op("Abs", {x});
  }
  {
    const auto device = builder.WithDevice("/gpu:0");
    other = builder.Op("Exp", {x});
    behind = builder.Op("Neg", {builder.Op("Square", {other})});
  }
  {
    const auto device = builder.WithDevice("/cpu:0");
    sum = ops::AddN(builder, {mine, other});
    later = builder.Op("Tanh", {builder.Op("Sqrt", {mine})});
  }
  ASSERT_TRUE(builder.status().ok()) << builder.status();

  SimulatedTraffic traffic;
  Notification done;
  const auto wait_for_both_copies = [&] {
    while (traffic.downloads < 2) std::this_thread::yield();
  };
  const KernelBackend backend =
      ScriptedBackend({{"Abs", {wait_for_both_copies, nullptr}},
                       {"Exp", {[&] { EXPECT_TRUE(done.WaitFor(absl::Seconds(20))); }, nullptr}},
                       {"Tanh", {nullptr, [&] { done.Notify(); }}}});
  SimulatedDeviceOptions options;
  options.traffic = &traffic;
  const KernelBackend simulated = SimulatedBackend(backend, options);
  const std::vector<std::pair<Output, Tensor>> feeds = {
      {x, Tensor::Of<float>({4}, {-1, 2, -3, 4})}};
  const std::vector<Output> fetches = {sum, later, behind};
  CompileRequest request = MakeRequest(graph, backend, feeds, fetches);
  request.placer.devices = *LocalDevices("worker", 0, {"/cpu:0", "/gpu:0"});
  request.accelerators = {&simulated};
  const auto two = Compile(request);
  ASSERT_TRUE(two.ok()) << two.status();
  const std::vector<Tensor> values = RunOnce(two->get(), feeds, {});

  const KernelBackend plain = CpuKernelBackend();
  const auto one = RunGraph(graph, plain, feeds, {}, fetches);
  ASSERT_TRUE(one.ok()) << one.status();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].span<float>(), (*one)[i].span<float>());
  }
}

}  // namespace
}  // namespace shoal
