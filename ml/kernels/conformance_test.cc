// Compares every kernel with the float64 reference: on every backend of the machine, with one and
// two threads, for every choice of needed outputs, and in both layouts if the kernel supports them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/log.h"
#include "ml/kernels/conformance_backends.h"
#include "ml/kernels/conformance_cases.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/op_runner.h"
#include "ml/kernels/reference/reference_kernels.h"

namespace shoal {
namespace {

bool HasKernel(const ConformanceBackend& backend, const std::string& op) {
  return std::count(backend.ops.begin(), backend.ops.end(), op) > 0;
}

// Runs the call on the backend. A device keeps its first error, so after a failed call the backend
// gets a new device, and the next call is judged by itself.
absl::StatusOr<std::vector<Tensor>> RunOn(ConformanceBackend& backend, const OpCall& call,
                                          OpRunOptions options = {}) {
  options.device = backend.device;
  auto outputs = RunOp(backend.create_kernel, call, options);
  if (!outputs.ok() && backend.device != nullptr) {
    options.device.reset();
    backend.device.reset();
    absl::StatusOr<std::shared_ptr<Device>> device = backend.open_device();
    CHECK(device.ok()) << "the device cannot be opened again after \"" << outputs.status().message()
                       << "\": " << device.status();
    backend.device = *std::move(device);
  }
  return outputs;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

Tensor Reordered(const Tensor& tensor, Layout layout) {
  if (tensor.spec().layout == layout) return tensor;
  TensorSpec spec = tensor.spec();
  spec.layout = layout;
  return RunOp(CreateReferenceKernel, {"ReorderLayout", {}, {tensor}, {spec}}).value()[0];
}

// Differences are divided by the largest absolute value of the reference. Values are of order 1, so
// a much smaller result is a difference of such values and cannot be more accurate than their
// rounding.
void ExpectFloatsNear(const Tensor& actual, const Tensor& reference, double tolerance) {
  double largest = 0.1;
  for (double v : reference.span<double>()) largest = std::max(largest, std::fabs(v));
  double worst = 0;
  for (size_t i = 0; i < reference.span<double>().size(); ++i) {
    const double difference =
        std::fabs(actual.span<float>()[i] - reference.span<double>()[i]) / largest;
    worst = difference <= worst ? worst : difference;  // NaN stays
  }
  EXPECT_LE(worst, tolerance) << actual.spec().ToString();
}

void ExpectBytesNear(const Tensor& actual, const Tensor& reference, double mismatch) {
  double different = 0;
  for (size_t i = 0; i < reference.span<uint8_t>().size(); ++i) {
    different += actual.span<uint8_t>()[i] != reference.span<uint8_t>()[i] ? 1 : 0;
  }
  EXPECT_LE(different, mismatch * static_cast<double>(reference.bytes()));
}

// A case and its expected outputs.
struct JudgedCase {
  ConformanceCase c;
  std::vector<Tensor> reference;
};

void ExpectNear(const JudgedCase& judged, ConformanceBackend& backend,
                const std::vector<Tensor>& actual) {
  const ConformanceCase& c = judged.c;
  const std::vector<Tensor>& reference = judged.reference;
  const double tolerance =
      backend.device == nullptr ? c.tolerance : std::max(c.tolerance, c.device_tolerance);
  for (size_t k = 0; k < actual.size(); ++k) {
    if (actual[k].data() == nullptr) continue;
    const Tensor plain = Reordered(actual[k], reference[k].spec().layout);
    if (plain.dtype() == DataType::kInt32) {
      EXPECT_TRUE(SameBytes(plain, reference[k])) << plain.spec().ToString();
    } else if (plain.dtype() == DataType::kUint8) {
      ExpectBytesNear(plain, reference[k], c.byte_mismatch);
    } else if (!IsFloating(plain.dtype())) {
      EXPECT_TRUE(SameBytes(plain, reference[k])) << plain.spec().ToString();
    } else {
      ExpectFloatsNear(plain, reference[k], tolerance);
    }
  }
}

// Converts all inputs and outputs for which the kernel supports it to the blocked layout. Returns
// false if there are none.
bool AsBlocked(const ConformanceBackend& backend, OpCall& call) {
  if (!backend.supports_layout) return false;
  const auto is_blocked = [&](const TensorSpec& spec, Port port, size_t index) {
    return spec.shape.rank() == 4 && spec.shape.dim(1) % 16 == 0 && spec.layout == Layout::kPlain &&
           backend.supports_layout(call.op, call.attributes, port, static_cast<int>(index),
                                   Layout::kBlocked16);
  };
  bool any = false;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    if (!is_blocked(call.inputs[k].spec(), Port::kInput, k)) continue;
    call.inputs[k] = Reordered(call.inputs[k], Layout::kBlocked16);
    any = true;
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    if (!is_blocked(call.outputs[k], Port::kOutput, k)) continue;
    call.outputs[k].layout = Layout::kBlocked16;
    any = true;
  }
  return any;
}

// All ops except those that the compiler implements itself.
bool HasCpuKernel(const std::string& op) {
  const std::vector<std::string> ops = CpuKernelOps();
  return std::count(ops.begin(), ops.end(), op) > 0;
}

class ConformanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    backends_ = new std::vector<ConformanceBackend>(ConformanceBackends());
    cases_ = new std::vector<JudgedCase>();
    for (ConformanceCase& c : ConformanceCases()) {
      if (!HasCpuKernel(c.call.op)) continue;
      auto reference = RunOp(CreateReferenceKernel, AsFloat64(c.call)).value();
      cases_->push_back({std::move(c), std::move(reference)});
    }
  }
  static void TearDownTestSuite() {
    delete cases_;
    delete backends_;
  }

  static void ForEachCase(void (*check)(const JudgedCase& judged, ConformanceBackend& backend)) {
    for (const JudgedCase& judged : *cases_) {
      for (ConformanceBackend& backend : *backends_) {
        if (!HasKernel(backend, judged.c.call.op)) continue;
        SCOPED_TRACE(judged.c.name + " " + backend.name);
        check(judged, backend);
      }
    }
  }

  static std::vector<ConformanceBackend>* backends_;
  static std::vector<JudgedCase>* cases_;
};

std::vector<ConformanceBackend>* ConformanceTest::backends_ = nullptr;
std::vector<JudgedCase>* ConformanceTest::cases_ = nullptr;

TEST_F(ConformanceTest, KernelsAgreeWithTheReference) {
  ForEachCase([](const JudgedCase& judged, ConformanceBackend& backend) {
    const auto actual = RunOn(backend, judged.c.call);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectNear(judged, backend, *actual);
  });
}

TEST_F(ConformanceTest, TwoThreadsAgreeWithTheReference) {
  ForEachCase([](const JudgedCase& judged, ConformanceBackend& backend) {
    if (backend.device != nullptr) return;
    const auto actual = RunOn(backend, judged.c.call, {/*threads=*/2});
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectNear(judged, backend, *actual);
  });
}

TEST_F(ConformanceTest, BlockedLayoutsAgreeWithTheReference) {
  ForEachCase([](const JudgedCase& judged, ConformanceBackend& backend) {
    OpCall blocked = judged.c.call;
    if (!AsBlocked(backend, blocked)) return;
    const auto actual = RunOn(backend, blocked);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectNear(judged, backend, *actual);
  });
}

TEST_F(ConformanceTest, TheSameInputsGiveTheSameBytes) {
  ForEachCase([](const JudgedCase& judged, ConformanceBackend& backend) {
    for (int threads : {1, 2}) {
      const auto first = RunOn(backend, judged.c.call, {threads});
      const auto second = RunOn(backend, judged.c.call, {threads});
      ASSERT_TRUE(first.ok() && second.ok());
      for (size_t k = 0; k < first->size(); ++k) EXPECT_TRUE(SameBytes((*first)[k], (*second)[k]));
    }
  });
}

TEST_F(ConformanceTest, UnusedOutputsDoNotChangeOthers) {
  ForEachCase([](const JudgedCase& judged, ConformanceBackend& backend) {
    const size_t outputs = judged.c.call.outputs.size();
    if (outputs < 2) return;
    for (size_t mask = 1; mask + 1 < (size_t{1} << outputs); ++mask) {
      if (judged.c.needs_first_output && (mask & 1) == 0) continue;
      OpRunOptions options;
      for (size_t k = 0; k < outputs; ++k) options.output_needed.push_back(mask >> k & 1);
      const auto actual = RunOn(backend, judged.c.call, options);
      ASSERT_TRUE(actual.ok()) << actual.status() << " needed=" << mask;
      ExpectNear(judged, backend, *actual);
    }
  });
}

TEST_F(ConformanceTest, NanIsNotHidden) {
  for (const ConformanceCase& c : NanCases()) {
    if (!HasCpuKernel(c.call.op)) continue;
    const auto reference = RunOp(CreateReferenceKernel, AsFloat64(c.call)).value();
    for (ConformanceBackend& backend : *backends_) {
      if (!HasKernel(backend, c.call.op)) continue;
      SCOPED_TRACE(c.name + " " + backend.name);
      const auto actual = RunOn(backend, c.call);
      ASSERT_TRUE(actual.ok()) << actual.status();
      for (size_t k = 0; k < reference.size(); ++k) {
        for (size_t i = 0; i < reference[k].span<double>().size(); ++i) {
          if (!std::isnan(reference[k].span<double>()[i])) continue;
          EXPECT_TRUE(std::isnan((*actual)[k].span<float>()[i])) << "output " << k << " at " << i;
        }
      }
    }
  }
}

TEST_F(ConformanceTest, WindowsWithMoreElementsThanAByteCountsAreRefused) {
  const Attributes window{{"kernel_shape", std::vector<int64_t>{15, 17}}};
  const TensorSpec x{DataType::kFloat32, {1, 2, 15, 17}}, y{DataType::kFloat32, {1, 2, 1, 1}};
  const TensorSpec index{DataType::kUint8, y.shape};
  for (ConformanceBackend& backend : *backends_) {
    for (const OpCall& call : {OpCall{"MaxPool", window, {Tensor(x)}, {y, index}},
                               OpCall{"MaxPoolGrad", window, {Tensor(index), Tensor(y)}, {x}}}) {
      const absl::Status status = RunOn(backend, call).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << call.op << backend.name;
      EXPECT_NE(status.message().find("want a window of fewer than 255 elements"),
                std::string::npos)
          << call.op << " " << backend.name << ": " << status;
    }
  }
}

TEST_F(ConformanceTest, EveryCpuKernelHasACase) {
  std::set<std::string> covered;
  for (const ConformanceCase& c : ConformanceCases()) covered.insert(c.call.op);
  for (const std::string& op : CpuKernelOps()) {
    EXPECT_TRUE(covered.count(op)) << op << " needs a case in conformance_*_cases.cc";
  }
}

TEST_F(ConformanceTest, EveryReferenceKernelHasACase) {
  std::set<std::string> covered;
  for (const ConformanceCase& c : ConformanceCases()) covered.insert(c.call.op);
  for (const std::string& op : ReferenceKernelOps()) EXPECT_TRUE(covered.count(op)) << op;
}

TEST_F(ConformanceTest, EveryReferenceKernelHasACpuKernel) {
  for (const std::string& op : ReferenceKernelOps()) {
    if (op == "Constant") continue;  // filled when a graph is compiled
    EXPECT_TRUE(HasCpuKernel(op)) << op;
  }
}

}  // namespace
}  // namespace shoal
