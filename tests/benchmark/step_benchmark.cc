// Times training steps in one process for tests/benchmark/compare.py: local_training.h describes a
// step. With THREADS=1 the caller pins the process to one CPU, so that the store's thread, too,
// computes on that one.
//
// usage: step_benchmark MODEL BATCH THREADS [DEVICES [VARIABLES [cuda_graphs] [bfloat16]]]
// MODEL: seed_mlp, lenet, mobilenet_v2, resnet18. BATCH and THREADS of each device. DEVICES: a
// number of CPU devices, by default one, or a list as /gpu:0,/gpu:1. VARIABLES: cpu, first_device,
// mirrored. cuda_graphs: GPUs replay their steps. bfloat16: products of bfloat16.
//
// Protocol: prints "ready"; for every line "N" on standard input runs N steps and prints: median
// milliseconds of one, median CPU milliseconds of one (all threads of the process), and the FMA
// rate of a thread (GF/s, mean of just before and just after).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "tests/benchmark/fma_peak.h"
#include "tests/benchmark/local_training.h"

namespace shoal {
namespace {

double ProcessCpuMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void TimeSteps(int steps, LocalTraining* training) {
  std::vector<double> wall, cpu;
  const double peak_before = MeasureFmaPeak();
  for (int i = 0; i < steps; ++i) {
    const absl::Time start = absl::Now();
    const double cpu_start = ProcessCpuMilliseconds();
    const absl::Status status = training->Step();
    CHECK(status.ok()) << status;
    cpu.push_back(ProcessCpuMilliseconds() - cpu_start);
    wall.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
  }
  const double peak = 0.5 * (peak_before + MeasureFmaPeak());
  std::printf("%.3f %.3f %.2f\n", Median(wall), Median(cpu), 1e-9 * peak);
  std::fflush(stdout);
}

// A number of CPU devices, or a list of devices.
bool ReadDevices(absl::string_view text, LocalTraining::Options* options) {
  if (absl::SimpleAtoi(text, &options->devices)) return options->devices > 0;
  options->device_list = std::string(text);
  options->devices = static_cast<uint32_t>(std::count(text.begin(), text.end(), ',')) + 1;
  return text.front() == '/';
}

// Reads the words after VARIABLES. Returns false for an unknown word.
bool ReadSwitch(absl::string_view word, LocalTraining::Options* options) {
  options->cuda_graphs |= word == "cuda_graphs";
  options->bfloat16 |= word == "bfloat16";
  return word == "cuda_graphs" || word == "bfloat16";
}

int Main(const LocalTraining::Options& options) {
  absl::StatusOr<std::unique_ptr<LocalTraining>> training = LocalTraining::Create(options);
  if (!training.ok()) {
    std::fprintf(stderr, "%s\n", training.status().ToString().c_str());
    return 1;
  }
  for (int i = 0; i < 3; ++i) CHECK_OK((*training)->Step());
  std::puts("ready");
  std::fflush(stdout);
  int steps = 0;
  while (std::scanf("%d", &steps) == 1) TimeSteps(std::max(1, steps), training->get());
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::LocalTraining::Options options;
  bool are_switches = true;
  for (int i = 6; i < argc; ++i) are_switches &= shoal::ReadSwitch(argv[i], &options);
  if (argc < 4 || !are_switches || !absl::SimpleAtoi(argv[2], &options.batch_size) ||
      !absl::SimpleAtoi(argv[3], &options.threads) || options.batch_size == 0 ||
      options.threads == 0 || (argc > 4 && !shoal::ReadDevices(argv[4], &options))) {
    std::fprintf(stderr,
                 "usage: step_benchmark seed_mlp|lenet|mobilenet_v2|resnet18 BATCH THREADS "
                 "[DEVICES [VARIABLES [cuda_graphs] [bfloat16]]]\n");
    return 64;
  }
  options.model = argv[1];
  if (argc > 5) options.variables = argv[5];
  return shoal::Main(options);
}
