// Tests graphs on devices with their own memory, which are simulated. The first cases also run on
// GPUs if the machine has some.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "ml/device/simulated_device.h"
#include "ml/graph/compiler.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/cuda/cuda_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"

namespace shoal {
namespace {

using Feeds = std::vector<std::pair<Output, Tensor>>;

class DeviceMemoryTest : public testing::Test {
 protected:
  // A classifier with its loss and gradients under a device, of batches of 6.
  void BuildClone(int clone, const std::string& device) {
    const auto scope = builder_.WithNameScope(absl::StrCat("clone_", clone));
    const auto on = builder_.WithDevice(device);
    const auto in_clone = builder_.WithClone(clone);
    const auto reuse = builder_.ReenterVariableScope(clone == 0 ? Reuse::kCreate : Reuse::kReuse);
    const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim, 5}));
    const Output labels = builder_.Placeholder("labels", DataType::kInt32, Shape({kUnknownDim}));
    DenseOptions hidden;
    hidden.units = 7;
    hidden.activation = Activation::kRelu;
    DenseOptions last;
    last.units = 3;
    const Output logits = Dense(builder_, Dense(builder_, x, hidden), last);
    const Output loss = AddLoss(builder_, LossKind::kSparseSoftmaxCrossEntropy, logits, labels);
    losses_.push_back(builder_.Op("Scale", {loss}, {{"factor", 0.5}}));
    gradients_.push_back(
        *BuildGradients(builder_, losses_.back(), graph_.Collection(kTrainableVariables)));
    feeds_.push_back({x, RandomTensor(DataType::kFloat32, {6, 5}, 3 + clone)});
    feeds_.push_back({labels, Tensor::Of<int32_t>({6}, {0, 1, 2, 2, 1, 0})});
  }

  // Sums over the clones, made on the CPU.
  std::vector<Output> Sums() {
    const auto on = builder_.WithDevice("/cpu:0");
    std::vector<Output> sums = {ops::AddN(builder_, losses_)};
    for (size_t v = 0; v < gradients_[0].size(); ++v) {
      std::vector<Output> parts;
      for (const auto& gradients : gradients_) parts.push_back(gradients[v]);
      sums.push_back(ops::AddN(builder_, parts));
    }
    return sums;
  }

  CompileRequest RequestFor(const std::vector<Output>& fetches,
                            const std::vector<std::string>& devices) {
    CompileRequest request = MakeRequest(graph_, cpu_, feeds_, fetches);
    simulated_ = SimulatedBackend(cpu_, options_);
    request.accelerators = {&simulated_};
    request.placer.devices = *LocalDevices("worker", 0, devices);
    request.placer.log = [this](const std::string& line) { log_ += line + "\n"; };
    return request;
  }

  std::unique_ptr<Executable> CompileOrDie(const CompileRequest& request) {
    absl::StatusOr<std::unique_ptr<Executable>> executable = Compile(request);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }

  // Runs on the devices give the bytes of a run on CPUs, time after time.
  void ExpectBytesOfTheCpu(const std::vector<Output>& fetches, Executable* executable) {
    const std::vector<Tensor> variables = InitialValues(graph_, 17);
    const auto expected = RunGraph(graph_, cpu_, feeds_, variables, fetches);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int run = 0; run < 50; ++run) {
      const std::vector<Tensor> got = RunOnce(executable, feeds_, variables);
      ASSERT_TRUE(executable->status().ok()) << executable->status();
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].span<float>(), (*expected)[i].span<float>()) << "run " << run << " " << i;
      }
    }
  }

  // Returns those of 50 runs that differ from a CPU's by more than `tolerance`. Variables change
  // between the runs, and with them, if `gives_versions`, their versions; each run has its values
  // at other addresses. So a device that keeps values for too long, or uploads into the wrong
  // place, differs.
  int RunsThatDiffer(const std::vector<Output>& fetches, Executable* executable, double tolerance,
                     bool gives_versions = true) {
    const auto on_cpu = CompileOrDie(MakeRequest(graph_, cpu_, feeds_, fetches));
    std::vector<Tensor> variables = InitialValues(graph_, 17);
    std::vector<uint64_t> versions(variables.size(), 1);
    int runs_that_differ = 0;
    for (int run = 0; run < 50; ++run) {
      // Every third run has the values of the one before.
      if (run % 3 != 0 && !variables.empty()) {
        const size_t changed = static_cast<size_t>(run) % variables.size();
        variables[changed] = Raised(variables[changed], run % 2 == 0 ? 0.25f : -0.125f);
        if (gives_versions) ++versions[changed];
      }
      // All values are new if there are no versions.
      const bool has_versions = run >= 5 && run != 25;
      const std::vector<Tensor> got =
          RunOnce(executable, feeds_, variables,
                  has_versions ? absl::MakeConstSpan(versions) : absl::Span<const uint64_t>());
      EXPECT_TRUE(executable->status().ok()) << executable->status();
      const std::vector<Tensor> expected = RunOnce(on_cpu.get(), feeds_, variables);
      bool is_near = executable->status().ok();
      for (size_t i = 0; i < got.size(); ++i) {
        is_near = is_near && RelativeDistance(got[i], expected[i]) <= tolerance;
      }
      runs_that_differ += is_near ? 0 : 1;
    }
    return runs_that_differ;
  }

  // A copy, with this added to every element.
  static Tensor Raised(const Tensor& values, float by) {
    Tensor raised(values.spec());
    for (size_t i = 0; i < values.span<float>().size(); ++i) {
      raised.mutable_span<float>()[i] = values.span<float>()[i] + by;
    }
    return raised;
  }

  // The same on the GPUs of this machine, if it has as many.
  void ExpectNearTheCpuOnGpus(const std::vector<Output>& fetches, int num_gpus,
                              bool CompileRequest::*option = nullptr) {
    const absl::StatusOr<KernelBackend> gpu = CudaKernelBackend();
    if (!gpu.ok() || gpu->num_devices < num_gpus) return;
    std::vector<std::string> devices = {"/cpu:0", "/cpu:1"};
    for (int i = 0; i < num_gpus; ++i) devices.push_back(absl::StrCat("/gpu:", i));
    CompileRequest request = RequestFor(fetches, devices);
    request.accelerators = {&*gpu};
    if (option != nullptr) request.*option = true;
    EXPECT_EQ(RunsThatDiffer(fetches, CompileOrDie(request).get(), 1e-5), 0);
  }

  // Two clones, and the sums of their gradients, each on one of their devices.
  std::vector<Output> TwoClonesWithSumsOnTheirDevices() {
    BuildClone(0, "/gpu:0");
    BuildClone(1, "/gpu:1");
    std::vector<Output> sums;
    for (size_t v = 0; v < gradients_[0].size(); ++v) {
      const auto on = builder_.WithDevice(v % 2 == 0 ? "/gpu:0" : "/gpu:1");
      sums.push_back(ops::AddN(builder_, {gradients_[0][v], gradients_[1][v]}));
    }
    return sums;
  }

  CompileRequest GroupRequestFor(const std::vector<Output>& fetches) {
    CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:0", "/gpu:1"});
    request.group_devices = true;
    return request;
  }

  // Returns the fetches that a run reports as finished, in their order.
  std::vector<int> FinishedFetches(Executable* executable, const std::vector<Tensor>& variables) {
    std::vector<const void*> inputs, values;
    for (const auto& feed : feeds_) inputs.push_back(feed.second.data());
    for (const Tensor& variable : variables) values.push_back(variable.data());
    std::vector<Tensor> results;
    std::vector<void*> outputs;
    for (const TensorSpec& spec : executable->output_specs()) results.emplace_back(spec);
    for (Tensor& result : results) outputs.push_back(result.mutable_data());
    Mutex mutex;
    std::vector<int> finished;
    executable->Run({inputs, values, outputs, {}}, [&](int output, int64_t) {
      MutexLock lock(&mutex);
      finished.push_back(output);
    });
    return finished;
  }

  static SimulatedDeviceOptions TwoDevices(SimulatedTraffic* traffic) {
    SimulatedDeviceOptions options;
    options.num_devices = 2;
    options.traffic = traffic;
    return options;
  }

  static int Count(const std::string& text, const char* part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  KernelBackend cpu_ = CpuKernelBackend();
  SimulatedTraffic traffic_;
  SimulatedDeviceOptions options_ = TwoDevices(&traffic_);
  KernelBackend simulated_;
  Graph graph_;
  GraphBuilder builder_{&graph_};
  Feeds feeds_;
  std::vector<Output> losses_;
  std::vector<std::vector<Output>> gradients_;
  std::string log_;
};

TEST_F(DeviceMemoryTest, BindingsGoUpAndGradientsComeDownInOnePackEach) {
  BuildClone(0, "/gpu:0");
  const std::vector<Output> fetches = Sums();
  const auto executable = CompileOrDie(RequestFor(fetches, {"/cpu:0", "/gpu:0"}));
  EXPECT_EQ(Count(executable->ToString(), "CPU:0"), 0) << executable->ToString();
  EXPECT_EQ(Count(executable->ToString(), "DenseGrad("), 2);
  const int64_t before = traffic_.uploads;
  ExpectBytesOfTheCpu(fetches, executable.get());
  EXPECT_EQ(traffic_.uploads, before + 50);
  EXPECT_EQ(traffic_.downloads, 50);
  EXPECT_GE(executable->arena_bytes(), static_cast<size_t>(traffic_.allocated_bytes));
  ExpectNearTheCpuOnGpus(fetches, 1);
}

TEST_F(DeviceMemoryTest, AVariableGoesUpAgainOnlyWithANewVersion) {
  BuildClone(0, "/gpu:0");
  const std::vector<Output> fetches = Sums();
  const auto executable = CompileOrDie(RequestFor(fetches, {"/cpu:0", "/gpu:0"}));
  std::vector<Tensor> variables = InitialValues(graph_, 17);
  std::vector<uint64_t> versions(variables.size(), 1);
  const auto run = [&](absl::Span<const uint64_t> with) {
    const int64_t before = traffic_.uploaded_bytes;
    std::vector<Tensor> got = RunOnce(executable.get(), feeds_, variables, with);
    return std::make_pair(traffic_.uploaded_bytes - before, got[1]);  // a gradient
  };
  const auto [all_bytes, first] = run(versions);
  const auto [feed_bytes, again] = run(versions);
  EXPECT_GE(feed_bytes, 6 * (5 + 1) * 4);
  EXPECT_LE(feed_bytes, all_bytes - (5 * 7 + 7 + 7 * 3 + 3) * 4);
  EXPECT_EQ(again.span<float>(), first.span<float>());

  // The bytes of the host are not looked at, unless the version says so.
  for (float& value : variables[0].mutable_span<float>()) value += 1;
  EXPECT_EQ(run(versions).second.span<float>(), first.span<float>());
  versions[0] = 2;
  const auto [some_bytes, changed] = run(versions);
  EXPECT_GT(some_bytes, feed_bytes);
  EXPECT_LT(some_bytes, all_bytes);
  const auto expected = RunGraph(graph_, cpu_, feeds_, variables, fetches);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(changed.span<float>(), (*expected)[1].span<float>());
  EXPECT_NE(changed.span<float>(), first.span<float>());

  // A version that is not known is new, and what follows it is.
  EXPECT_EQ(run({}).first, all_bytes);
  EXPECT_EQ(run(versions).first, all_bytes);
  EXPECT_EQ(run(versions).first, feed_bytes);
}

// The checks on GPUs depend on this: a device with old values is detected.
TEST_F(DeviceMemoryTest, ChangesBetweenRunsAreSeenAndTheirLackIs) {
  const std::vector<Output> fetches = TwoClonesWithSumsOnTheirDevices();
  for (const bool is_group : {false, true}) {
    for (const bool is_recorded : {false, true}) {
      CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:0", "/gpu:1"});
      request.group_devices = is_group;
      request.record_steps = is_recorded;
      const auto executable = CompileOrDie(request);
      EXPECT_EQ(RunsThatDiffer(fetches, executable.get(), 0), 0) << is_group << is_recorded;
      EXPECT_GT(RunsThatDiffer(fetches, executable.get(), 1e-5, /*gives_versions=*/false), 20);
    }
  }
}

TEST_F(DeviceMemoryTest, ClonesOnTwoDevicesAreSummedOnTheHost) {
  BuildClone(0, "/gpu:0");
  BuildClone(1, "/gpu:1");
  const std::vector<Output> fetches = Sums();
  const auto executable = CompileOrDie(RequestFor(fetches, {"/cpu:0", "/gpu:0", "/gpu:1"}));
  EXPECT_EQ(Count(executable->ToString(), "CopyToHost("), 2 * 5) << executable->ToString();
  ExpectBytesOfTheCpu(fetches, executable.get());
  ExpectNearTheCpuOnGpus(fetches, 2);
}

TEST_F(DeviceMemoryTest, OutputsAreAnnouncedInTheOrderOfCompletion) {
  BuildClone(0, "/gpu:0");
  const std::vector<Output> fetches = Sums();
  const auto executable = CompileOrDie(RequestFor(fetches, {"/cpu:0", "/gpu:0"}));
  const std::vector<int> order = FinishedFetches(executable.get(), InitialValues(graph_, 1));
  ASSERT_EQ(order.size(), fetches.size());
  // Outputs 1 and 2 are the first layer's, 3 and 4 the last one's.
  const auto place = [&](int o) { return std::find(order.begin(), order.end(), o); };
  EXPECT_LT(place(3), place(1));
  EXPECT_LT(place(4), place(2));
}

TEST_F(DeviceMemoryTest, AValueCrossesABorderOnceForEachMemoryThatReadsIt) {
  const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({4}));
  feeds_ = {{x, RandomTensor(DataType::kFloat32, {4}, 1)}};
  const auto on = [&](const char* device, const char* op, std::vector<Output> inputs) {
    const auto scope = builder_.WithDevice(device);
    return builder_.Op(op, std::move(inputs));
  };
  const Output a = on("/gpu:0", "Square", {x});
  const Output b = on("/cpu:0", "Exp", {a});
  const Output c = on("/cpu:1", "Neg", {on("/cpu:1", "Tanh", {a})});
  const Output d = on("/gpu:1", "Add", {on("/gpu:1", "Mul", {a, b}), c});
  const Output e = on("/gpu:0", "Sub", {d, ops::Reshape(builder_, b, {4})});
  const std::vector<Output> fetches = {e, a, b, x};
  const auto executable =
      CompileOrDie(RequestFor(fetches, {"/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"}));
  const std::string text = executable->ToString();
  EXPECT_EQ(Count(text, "CopyToHost("), 1) << text;    // a, for both CPUs
  EXPECT_EQ(Count(text, "CopyFromPeer("), 2) << text;  // a to the second, d to the first
  EXPECT_EQ(Count(text, "CopyFromHost("), 3) << text;  // b to both, c to the second
  ExpectBytesOfTheCpu(fetches, executable.get());
  ExpectNearTheCpuOnGpus(fetches, 2);
}

TEST_F(DeviceMemoryTest, ConstantsAreMadeWhereTheyAreRead) {
  const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({4}));
  feeds_ = {{x, RandomTensor(DataType::kFloat32, {4}, 1)}};
  Output constant, sum;
  {
    const auto scope = builder_.WithDevice("/cpu:0");
    constant = ops::Constant(builder_, 2.5);
  }
  {
    const auto scope = builder_.WithDevice("/gpu:1");
    sum = ops::Add(builder_, x, constant);
  }
  const std::vector<Output> fetches = {sum, sum};
  const auto executable = CompileOrDie(RequestFor(fetches, {"/cpu:0", "/gpu:0", "/gpu:1"}));
  EXPECT_EQ(Count(executable->ToString(), "CPU:0"), 0) << executable->ToString();
  ExpectBytesOfTheCpu(fetches, executable.get());
  ExpectNearTheCpuOnGpus(fetches, 2);
}

TEST_F(DeviceMemoryTest, OpsWithoutAKernelGoToTheCpuWithSoftPlacement) {
  options_.ops = {"MatMul",   "Add",         "Relu",  "ReluGrad", "SumTo",
                  "Variable", "Placeholder", "Dense", "DenseGrad"};
  BuildClone(0, "/gpu:0");
  const std::vector<Output> fetches = Sums();
  CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:0"});
  const auto executable = CompileOrDie(request);
  EXPECT_EQ(Count(executable->ToString(), "GPU:0 clone_0/fully_connected/Relu = Dense("), 1)
      << executable->ToString();
  EXPECT_NE(log_.find("clone_0/fully_connected/MatMul: (MatMul): "
                      "/job:worker/task:0/device:GPU:0\n"),
            std::string::npos)
      << log_;
  EXPECT_NE(log_.find("(SparseSoftmaxCrossEntropy): /job:worker/task:0/device:CPU:0\n"),
            std::string::npos);
  ExpectBytesOfTheCpu(fetches, executable.get());

  request.placer.allow_soft_placement = false;
  const std::string message(Compile(request).status().message());
  EXPECT_NE(message.find("(SparseSoftmaxCrossEntropy): Could not satisfy explicit device "
                         "specification '/device:GPU:0' because no supported kernel for GPU "
                         "devices is available; devices with a kernel for it: "
                         "/job:worker/task:0/device:CPU:0."),
            std::string::npos)
      << message;
}

TEST_F(DeviceMemoryTest, AnIntegerVariableForcedOntoAGpuIsAClearError) {
  VariableSpec spec;
  spec.name = "counter";
  spec.dtype = DataType::kInt32;
  Output counter;
  {
    const auto scope = builder_.WithDevice("/gpu:0");
    counter = builder_.GetVariable(spec);
  }
  CompileRequest request = RequestFor({counter}, {"/cpu:0", "/gpu:0"});
  request.placer.allow_soft_placement = false;
  EXPECT_EQ(Compile(request).status().message(),
            "Cannot assign a device for operation 'counter' (Variable): Could not satisfy explicit "
            "device specification '/device:GPU:0' because no supported kernel for GPU devices is "
            "available; devices with a kernel for it: /job:worker/task:0/device:CPU:0. Name one of "
            "these, or leave out --noallow_soft_placement");
  request.placer.allow_soft_placement = true;
  log_.clear();
  EXPECT_TRUE(Compile(request).ok());
  EXPECT_EQ(log_, "counter: (Variable): /job:worker/task:0/device:CPU:0\n");
}

TEST_F(DeviceMemoryTest, AFailedDeviceReportsItAndItsOutputsAreNotAnnounced) {
  options_.failing_kernel = 4;
  BuildClone(0, "/gpu:0");
  const std::vector<Output> fetches = Sums();
  const auto executable = CompileOrDie(RequestFor(fetches, {"/cpu:0", "/gpu:0"}));
  EXPECT_TRUE(executable->status().ok());
  EXPECT_EQ(FinishedFetches(executable.get(), InitialValues(graph_, 1)), std::vector<int>());
  EXPECT_EQ(executable->status().message(), "the simulated device has failed");
}

TEST_F(DeviceMemoryTest, OutputsThatReadAFailedDeviceAreNotAnnouncedByAnother) {
  options_.failing_kernel = 0;  // the square: all others wait for it
  const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({4}));
  feeds_ = {{x, RandomTensor(DataType::kFloat32, {4}, 1)}};
  Output square, sum, on_cpu;
  {
    const auto scope = builder_.WithDevice("/gpu:1");
    square = builder_.Op("Square", {x});
  }
  {
    const auto scope = builder_.WithDevice("/gpu:0");
    sum = ops::AddN(builder_, {square, square});
  }
  {
    const auto scope = builder_.WithDevice("/cpu:0");
    on_cpu = builder_.Op("Neg", {sum});
  }
  const auto executable = CompileOrDie(RequestFor({sum, on_cpu}, {"/cpu:0", "/gpu:0", "/gpu:1"}));
  EXPECT_EQ(Count(executable->ToString(), "CopyFromPeer("), 1) << executable->ToString();
  EXPECT_EQ(FinishedFetches(executable.get(), {}), std::vector<int>());
  EXPECT_EQ(executable->status().message(), "the simulated device has failed");
}

// Each sum is on one of the devices; every clone also outputs the values of its variables.
TEST_F(DeviceMemoryTest, AGroupAddsAndEveryDeviceHasTheSameValues) {
  std::vector<Output> fetches = TwoClonesWithSumsOnTheirDevices();
  for (int clone = 0; clone < 2; ++clone) {
    const auto on = builder_.WithDevice(absl::StrCat("/gpu:", clone));
    const auto in_clone = builder_.WithClone(clone);
    for (const Variable& variable : graph_.variables()) {
      fetches.push_back(builder_.Op("Identity", {Output{variable.node, 0}}));
    }
  }
  const auto executable = CompileOrDie(GroupRequestFor(fetches));
  const std::string text = executable->ToString();
  EXPECT_EQ(Count(text, "GroupPart("), 2 * 4) << text;
  EXPECT_EQ(Count(text, "CopyFromPeer("), 0) << text;
  ExpectBytesOfTheCpu(fetches, executable.get());
  EXPECT_EQ(traffic_.group_sums, 50 * 4);
  EXPECT_EQ(traffic_.broadcasts, 50 * 4);

  // Unchanged values are not spread again.
  const std::vector<Tensor> variables = InitialValues(graph_, 17);
  std::vector<uint64_t> versions(variables.size(), 1);
  RunOnce(executable.get(), feeds_, variables, versions);
  versions[1] = 2;
  RunOnce(executable.get(), feeds_, variables, versions);
  EXPECT_EQ(traffic_.broadcasts, 50 * 4 + 4 + 1);
  ExpectNearTheCpuOnGpus(fetches, 2, &CompileRequest::group_devices);
}

TEST_F(DeviceMemoryTest, AGroupOfWhichADeviceFailsIsGivenUp) {
  options_.failing_kernel = 7;
  const std::vector<Output> fetches = TwoClonesWithSumsOnTheirDevices();
  const auto executable = CompileOrDie(GroupRequestFor(fetches));
  EXPECT_EQ(FinishedFetches(executable.get(), InitialValues(graph_, 1)), std::vector<int>());
  EXPECT_EQ(executable->status().message(), "the simulated device has failed");
}

// If the group were not aborted, the rank's own sums would wait for the others, and the others for
// it.
TEST_F(DeviceMemoryTest, AGroupOfWhichACallFailsIsGivenUp) {
  const std::vector<Output> fetches = TwoClonesWithSumsOnTheirDevices();
  for (int64_t call : {0, 5, 9}) {
    options_.failing_group_call = call;
    const auto executable = CompileOrDie(GroupRequestFor(fetches));
    EXPECT_EQ(FinishedFetches(executable.get(), InitialValues(graph_, 1)), std::vector<int>())
        << call;
    EXPECT_EQ(executable->status().message(), "the simulated group has failed");
  }
}

TEST_F(DeviceMemoryTest, DevicesWhoseGroupCannotBeOpenedExchangePlainCopies) {
  options_.group_status = absl::InternalError("no shared memory is left");
  BuildClone(0, "/gpu:0");
  BuildClone(1, "/gpu:1");
  const std::vector<Output> fetches = Sums();
  const auto executable = CompileOrDie(GroupRequestFor(fetches));
  EXPECT_EQ(Count(executable->ToString(), "GroupPart("), 0);
  ExpectBytesOfTheCpu(fetches, executable.get());
  EXPECT_EQ(traffic_.group_sums + traffic_.broadcasts, 0);
}

// The second run records the steps; uploads and copies from other memories are still done in each
// run.
TEST_F(DeviceMemoryTest, RecordedStepsAreReplayedWithEachRunsValues) {
  BuildClone(0, "/gpu:0");
  const std::vector<Output> fetches = Sums();
  CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:0"});
  request.record_steps = true;
  const auto executable = CompileOrDie(request);
  ExpectBytesOfTheCpu(fetches, executable.get());
  EXPECT_EQ(traffic_.replays, 49);
  const std::vector<Tensor> other = InitialValues(graph_, 18);
  const auto expected = RunGraph(graph_, cpu_, feeds_, other, fetches);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::vector<Tensor> got = RunOnce(executable.get(), feeds_, other);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].span<float>(), (*expected)[i].span<float>()) << i;
  }
  EXPECT_EQ(traffic_.replays, 50);
  ExpectNearTheCpuOnGpus(fetches, 1, &CompileRequest::record_steps);
}

// Other devices continue when all recorded work is done.
TEST_F(DeviceMemoryTest, DevicesThatOthersWaitForAreReplayedToo) {
  BuildClone(0, "/gpu:0");
  BuildClone(1, "/gpu:1");
  const std::vector<Output> fetches = Sums();
  CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:0", "/gpu:1"});
  request.record_steps = true;
  const auto executable = CompileOrDie(request);
  EXPECT_EQ(Count(executable->ToString(), "CopyToHost("), 2 * 5);
  ExpectBytesOfTheCpu(fetches, executable.get());
  EXPECT_EQ(traffic_.replays, 2 * 49);
  ExpectNearTheCpuOnGpus(fetches, 2, &CompileRequest::record_steps);
}

TEST_F(DeviceMemoryTest, AGroupAddsAfterEachReplay) {
  std::vector<Output> fetches = TwoClonesWithSumsOnTheirDevices();
  fetches.insert(fetches.begin(), losses_.begin(), losses_.end());
  CompileRequest request = GroupRequestFor(fetches);
  request.record_steps = true;
  const auto executable = CompileOrDie(request);
  ExpectBytesOfTheCpu(fetches, executable.get());
  EXPECT_EQ(traffic_.replays, 2 * 49);
  EXPECT_EQ(traffic_.group_sums, 50 * 4);
  EXPECT_EQ(traffic_.batches, 2 * 50 + 2 * 49);  // variables in every run; sums of every replay
}

TEST_F(DeviceMemoryTest, StepsThatCannotBeRecordedRunOneByOne) {
  const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({2, 64}));
  feeds_ = {{x, RandomTensor(DataType::kFloat32, {2, 64}, 1)}};
  const auto on = [&](const char* device, const char* op, std::vector<Output> inputs,
                      Attributes attributes = {}) {
    const auto scope = builder_.WithDevice(device);
    return builder_.Op(op, std::move(inputs), std::move(attributes));
  };
  const Output dropped = on("/gpu:0", "Dropout", {x}, {{"rate", 0.5}});
  const Output square = on("/gpu:0", "Square", {x});
  const Output elsewhere = on("/gpu:1", "Neg", {square});
  const auto replays_of = [&](const std::vector<Output>& fetches) {
    const int64_t before = traffic_.replays;
    CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:0", "/gpu:1"});
    request.record_steps = true;
    const auto executable = CompileOrDie(request);
    ExpectBytesOfTheCpu(fetches, executable.get());
    return traffic_.replays - before;
  };
  EXPECT_EQ(replays_of({dropped, square}), 0);
  EXPECT_EQ(replays_of({square}), 49);
  EXPECT_EQ(replays_of({elsewhere}), 49);  // of the first device
  options_.has_recordings = false;
  EXPECT_EQ(replays_of({square}), 0);
}

// Each device might wait for the other while the group waits for both.
TEST_F(DeviceMemoryTest, DevicesThatReadEachOthersValuesAreNotAGroup) {
  const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({4}));
  feeds_ = {{x, RandomTensor(DataType::kFloat32, {4}, 1)}};
  const auto on = [&](const char* device, const char* op, std::vector<Output> inputs) {
    const auto scope = builder_.WithDevice(device);
    return builder_.Op(op, std::move(inputs));
  };
  const Output a = on("/gpu:0", "Square", {x}), b = on("/gpu:1", "Exp", {x});
  const Output sum = on("/gpu:0", "AddN", {a, b});
  const Output mixed = on("/gpu:1", "Mul", {a, b});
  const std::vector<Output> fetches = {sum, mixed};
  for (bool alone : {true, false}) {
    CompileRequest request =
        RequestFor(alone ? std::vector<Output>{sum} : fetches, {"/cpu:0", "/gpu:0", "/gpu:1"});
    request.group_devices = true;
    const auto executable = CompileOrDie(request);
    EXPECT_EQ(Count(executable->ToString(), "GroupPart("), alone ? 2 : 0);
    ExpectBytesOfTheCpu(request.fetches, executable.get());
  }
}

TEST_F(DeviceMemoryTest, ADeviceThatIsNotThereIsNamed) {
  BuildClone(0, "/gpu:5");
  const std::vector<Output> fetches = Sums();
  CompileRequest request = RequestFor(fetches, {"/cpu:0", "/gpu:5"});
  EXPECT_EQ(Compile(request).status().message(), "there is no simulated device 5");
  request.accelerators.clear();
  EXPECT_EQ(Compile(request).status().message(),
            "devices: there are no kernels for /job:worker/task:0/device:GPU:5; name only devices "
            "of the backends that are given");
}

}  // namespace
}  // namespace shoal
