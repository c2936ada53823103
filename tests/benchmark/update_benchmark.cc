// Measures the cost of the check for non-finite numbers in an update: VariableUpdater::Apply, which
// checks, against its UpdateRule alone. Nanoseconds per element, medians of interleaved rounds, on
// one thread, for slices of 256 KiB: one that stays in the cache, and 64 in turn that do not.
//
// usage: update_benchmark
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/time/clock.h"

#include "base/log.h"
#include "ml/optim/update_rule.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {
namespace {

constexpr size_t kElements = 65536;
constexpr int kRounds = 41;

// Two values that take turns, the slots, a gradient.
struct Buffers {
  explicit Buffers(size_t num_slots)
      : value(kElements, 0.5f),
        new_value(kElements),
        gradient(kElements, 0.001f),
        slots(num_slots * kElements, 0.01f) {}

  std::vector<float> value, new_value, gradient, slots;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

template <typename Update>
double NanosecondsOf(std::vector<Buffers>* all, int repeats, Update update) {
  const absl::Time start = absl::Now();
  for (int i = 0; i < repeats; ++i) {
    for (Buffers& buffers : *all) {
      update(&buffers);
      buffers.value.swap(buffers.new_value);
    }
  }
  return absl::ToDoubleNanoseconds(absl::Now() - start) /
         static_cast<double>(repeats * all->size() * kElements);
}

void Compare(const char* name, OptimizerKind kind, size_t num_slices) {
  UpdateSettings settings;
  settings.optimizer.kind = kind;
  const std::unique_ptr<UpdateRule> rule = *UpdateRule::Create(settings.optimizer);
  v1::VariableSpec spec;
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  const VariableUpdater updater = *VariableUpdater::Create(spec, settings, rule.get());
  std::vector<Buffers> all(num_slices, Buffers(rule->slots().size()));
  const auto alone = [&](Buffers* buffers) {
    UpdateStep step;
    step.learning_rate = 1e-3f;
    step.value = buffers->value.data();
    step.gradient = buffers->gradient.data();
    step.new_value = buffers->new_value.data();
    for (size_t k = 0; k < rule->slots().size(); ++k) {
      step.slots[k] = step.new_slots[k] = buffers->slots.data() + k * kElements;
    }
    step.n = kElements;
    rule->Apply(step);
  };
  const auto checked = [&](Buffers* buffers) {
    VariableUpdater::Update update;
    update.learning_rate = 1e-3f;
    update.value = buffers->value.data();
    update.contribution = buffers->gradient.data();
    update.new_value = buffers->new_value.data();
    update.slots = update.new_slots = buffers->slots.data();
    update.num_elements = kElements;
    CHECK(updater.Apply(update));
  };
  const int repeats = std::max<int>(1, static_cast<int>(128 / num_slices));
  std::vector<double> without, with;
  for (int round = 0; round < kRounds; ++round) {
    without.push_back(NanosecondsOf(&all, repeats, alone));
    with.push_back(NanosecondsOf(&all, repeats, checked));
  }
  std::printf("%-9s %2zu slices: rule alone %.3f ns, with the check %.3f ns\n", name, num_slices,
              Median(without), Median(with));
}

void Run() {
  for (const size_t num_slices : {1u, 64u}) {
    Compare("sgd", OptimizerKind::kSgd, num_slices);
    Compare("momentum", OptimizerKind::kMomentum, num_slices);
    Compare("adam", OptimizerKind::kAdam, num_slices);
  }
}

}  // namespace
}  // namespace shoal

int main() {
  shoal::Run();
  return 0;
}
