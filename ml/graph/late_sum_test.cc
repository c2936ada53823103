// A sum over devices waits for the slowest of them, but its own device goes on meanwhile.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "base/notification.h"
#include "ml/graph/compiler.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal {
namespace {

// Runs another kernel between two events.
class ScriptedKernel : public Kernel {
 public:
  ScriptedKernel(std::unique_ptr<Kernel> kernel, Notification* before, Notification* after)
      : kernel_(std::move(kernel)), before_(before), after_(after) {}

  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void Run(const KernelContext& context) override {
    if (before_ != nullptr) {
      EXPECT_TRUE(before_->WaitFor(absl::Seconds(20)));
    }
    kernel_->Run(context);
    if (after_ != nullptr) after_->Notify();
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  Notification* const before_;
  Notification* const after_;
};

TEST(LateSumTest, ADeviceGoesOnWhileTheSumOfItsGradientWaitsForAnother) {
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
  KernelBackend backend = CpuKernelBackend();
  const KernelFactory create = backend.create_kernel;
  backend.create_kernel =
      [&](const KernelRequest& request) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = create(request);
    if (!kernel.ok()) return kernel;
    return std::make_unique<ScriptedKernel>(*std::move(kernel),
                                            request.op == "Exp" ? &done : nullptr,
                                            request.op == "Tanh" ? &done : nullptr);
  };
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

}  // namespace
}  // namespace shoal
