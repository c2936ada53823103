// Measures kernels whose speed the memory limits, one after the other on one thread. Prints for
// each the median milliseconds, the bytes that it has to read and write per second, and their ratio
// to those of a copy.
//
//   bazel run //tests/benchmark:elementwise_kernels_benchmark -- [rounds] [rows]
//
// Tensors are [rows, 1024] floats, by default 4096 rows: 16 MiB, beyond the caches of a core.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ml/kernels/cpu/parallel.h"
#include "tests/benchmark/kernel_bench.h"

namespace shoal {
namespace {

constexpr int64_t kColumns = 1024;

class Bench {
 public:
  explicit Bench(int64_t rows) : rows_(rows), sequence_(1) {
    const Shape full({rows, kColumns});
    sequence_.AddBuffer("x", {DataType::kFloat32, full}, 4.0f);
    sequence_.AddBuffer("v", {DataType::kFloat32, full}, 4.0f);
    sequence_.AddBuffer("y", {DataType::kFloat32, full}, 0.0f);
    sequence_.AddBuffer("turned", {DataType::kFloat32, {kColumns, rows}}, 0.0f);
    sequence_.AddBuffer("row", {DataType::kFloat32, {rows}}, 0.0f);
    sequence_.AddBuffer("columns", {DataType::kFloat32, {kColumns}}, 0.0f);
    sequence_.AddBuffer("bits", {DataType::kBool, full}, 0.0f);
    sequence_.AddBuffer("whole", {DataType::kInt32, full}, 100.0f);
    sequence_.AddBuffer("ids", {DataType::kInt32, {rows}}, static_cast<float>(rows));
    sequence_.AddBuffer("half", {DataType::kFloat32, {rows, kColumns / 2}}, 0.0f);
    sequence_.AddBuffer("wide", {DataType::kFloat32, {rows + 2, kColumns + 8}}, 0.0f);
  }

  // `floats`: the number of times that 4 bytes an element of [rows, 1024] moves.
  void Add(const std::string& label, const std::string& op, const Attributes& attributes,
           const std::vector<std::string>& inputs, const std::string& output, double floats) {
    sequence_.AddKernel(label, op, attributes, inputs, {output});
    bytes_[label] = floats * 4.0 * static_cast<double>(rows_ * kColumns);
  }

  void AddAll();
  void Run(int rounds);

 private:
  const int64_t rows_;
  KernelSequence sequence_;
  std::map<std::string, double> bytes_;
};

void Bench::AddAll() {
  using Ints = std::vector<int64_t>;
  Add("copy", "Identity", {}, {"x"}, "y", 2);
  for (const char* op :
       {"Relu", "LeakyRelu", "Elu", "Gelu", "Silu", "Softplus", "Erf", "Exp", "Sigmoid", "Tanh"}) {
    Add(op, op, {}, {"x"}, "y", 2);
  }
  Add("Clip", "Clip", {{"min", 0.0}, {"max", 6.0}}, {"x"}, "y", 2);
  Add("Gelu tanh", "Gelu", {{"approximate", std::string("tanh")}}, {"x"}, "y", 2);
  Add("Add", "Add", {}, {"x", "v"}, "y", 3);
  Add("Pow", "Pow", {}, {"x", "v"}, "y", 3);
  for (const char* op : {"ClipGrad", "LeakyReluGrad", "EluGrad", "GeluGrad", "SiluGrad"}) {
    Add(op, op, {}, {"x", "v"}, "y", 3);
  }
  Add("Less", "Less", {}, {"x", "v"}, "bits", 2.25);
  Add("Where", "Where", {}, {"bits", "x", "v"}, "y", 3.25);
  Add("Cast int32", "Cast", {}, {"whole"}, "y", 2);
  Add("Cast bool", "Cast", {}, {"bits"}, "y", 1.25);
  Add("Dropout", "Dropout", {{"rate", 0.5}}, {"x"}, "y", 2);
  Add("ReduceMax rows", "ReduceMax", {{"axes", Ints{1}}}, {"x"}, "row", 1);
  Add("ReduceMax columns", "ReduceMax", {{"axes", Ints{0}}}, {"x"}, "columns", 1);
  Add("Slice half", "Slice", {{"starts", Ints{100}}, {"ends", Ints{612}}, {"axes", Ints{1}}}, {"x"},
      "half", 1);
  Add("Pad", "Pad", {{"pads", Ints{1, 4, 1, 4}}}, {"x"}, "wide", 2);
  Add("Gather", "Gather", {}, {"x", "ids"}, "y", 2);
  Add("GatherGrad", "GatherGrad", {}, {"ids", "x"}, "y", 4);
  Add("Transpose", "Transpose", {{"perm", Ints{1, 0}}}, {"x"}, "turned", 2);
}

void Bench::Run(int rounds) {
  for (int i = 0; i < rounds; ++i) sequence_.Run();
  double copy = 0;
  for (const KernelSequence::Timing& timing : sequence_.timings()) {
    const double seconds = Median(timing.seconds);
    const double rate = bytes_[timing.label] / seconds / 1e9;
    if (copy == 0) copy = rate;
    std::printf("%-18s %7.2f ms %6.1f GB/s %5.2f of a copy\n", timing.label.c_str(), seconds * 1e3,
                rate, rate / copy);
  }
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const int rows = argc > 2 ? std::atoi(argv[2]) : 4096;
  if (rounds < 1 || rows < 1) {
    std::fprintf(stderr, "rounds and rows must be 1 or more\n");
    return 64;
  }
  shoal::cpu::SetOmpThreads(1);
  shoal::Bench bench(rows);
  bench.AddAll();
  bench.Run(rounds);
  return 0;
}
