#include "tests/simulation/simulated_tables.h"

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/hash.h"

namespace shoal {
namespace {

constexpr uint64_t kHotKeys = 4;    // Half of all keys are among these,
constexpr uint64_t kRareKeys = 40;  // the others among these.

uint64_t HashOf(const BatchKey& batch) {
  return MixBits((uint64_t{batch.epoch} << 32) + batch.index);
}

void DrawRule(uint64_t bits, v1::TableSpec* table) {
  v1::OptimizerConfig* const optimizer = table->mutable_optimizer();
  optimizer->set_learning_rate(0.05);
  switch (bits % 5) {
    case 0:
      optimizer->mutable_sgd();
      break;
    case 1:
      table->set_rowwise(true);
      ABSL_FALLTHROUGH_INTENDED;
    case 2:
      optimizer->mutable_adagrad();
      break;
    case 3:
      optimizer->mutable_adam();
      break;
    default:
      optimizer->mutable_ftrl();
  }
  if (bits / 5 % 4 == 0) table->set_l2(0.125);
}

}  // namespace

SimulatedTables::SimulatedTables(uint64_t seed, bool synchronous) : seed_(seed) {
  const uint64_t count = 1 + MixBits(seed ^ 0x7ab1e) % 3;
  for (uint64_t t = 0; t < count; ++t) {
    const uint64_t bits = MixBits(seed + 991 * (t + 1));
    v1::VariableSpec& spec = specs_.emplace_back();
    spec.set_name(absl::StrCat("t", t));
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.add_shape(1 + static_cast<int64_t>(bits % 5));
    spec.set_trainable(true);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    spec.mutable_initializer()->set_kind(v1::Initializer::KIND_UNIFORM);
    spec.mutable_initializer()->set_a(synchronous ? -1 : 0);
    spec.mutable_initializer()->set_b(synchronous ? 1 : 0);
    v1::TableSpec* const table = spec.mutable_table();
    table->set_buckets(1 + static_cast<uint32_t>(bits >> 8) % 4);
    table->set_min_count(static_cast<uint32_t>(bits >> 16) % 4);
    if ((bits >> 24) % 2 == 0) table->set_idle_updates(1 + static_cast<uint32_t>(bits >> 32) % 6);
    if (synchronous) {
      DrawRule(bits >> 40, table);
    } else {
      table->mutable_optimizer()->set_learning_rate(1);
      table->mutable_optimizer()->mutable_sgd();
    }
  }
  if (MixBits(seed ^ 0x51de) % 8 == 0) untrained_ = count;
  are_asked_for_ = MixBits(seed ^ 0xa54ed) % 3 == 0;
}

std::string SimulatedTables::ToString() const {
  std::string text;
  for (const v1::VariableSpec& spec : specs_) {
    absl::StrAppend(&text, spec.ShortDebugString(), "\n");
  }
  return text;
}

std::vector<uint64_t> SimulatedTables::KeysOf(size_t table, size_t field, int64_t example) const {
  uint64_t bits = MixBits(MixBits(seed_ + 17 * table + field) + static_cast<uint64_t>(example));
  std::vector<uint64_t> keys(bits % 4);
  for (uint64_t& key : keys) {
    bits = MixBits(bits + 1);
    const uint64_t number = bits % 2 == 0 ? bits / 2 % kHotKeys : kHotKeys + bits / 2 % kRareKeys;
    key = MixBits(seed_ ^ number);
    if (number == 0) key = 0;
    if (number == kHotKeys) key = UINT64_MAX;
  }
  return keys;
}

TouchedKeys SimulatedTables::KeysOfExamples(const std::vector<int64_t>& examples) const {
  TouchedKeys touched(size());
  for (size_t t = 0; t < size(); ++t) {
    for (const int64_t example : examples) {
      for (size_t field = 0; field < num_fields(t); ++field) {
        const std::vector<uint64_t> keys = KeysOf(t, field, example);
        touched[t].insert(keys.begin(), keys.end());
      }
    }
  }
  return touched;
}

TouchedKeys SimulatedTables::KeysOfBatch(const BatchPlan& plan, const BatchKey& batch) const {
  const auto index = static_cast<int64_t>(batch.index);
  std::vector<int64_t> examples(static_cast<size_t>(plan.num_examples(index)));
  plan.FillIndices(batch.epoch, index, absl::MakeSpan(examples));
  return KeysOfExamples(examples);
}

uint64_t SimulatedTables::HashOfRow(size_t table, uint64_t key, const float* value) const {
  return MixBits(Fingerprint64({reinterpret_cast<const char*>(value), dim(table) * sizeof(float)},
                               MixBits(key + table)));
}

void SimulatedTables::Gradient(uint64_t values_hash, const BatchKey& batch, size_t table,
                               uint64_t key, const float* value, float* gradient) const {
  const uint64_t hash = MixBits(values_hash ^ HashOf(batch)) + MixBits(key + 31 * table);
  for (size_t e = 0; e < dim(table); ++e) {
    const uint64_t bits = MixBits(hash + 1000 * (e + 1));
    gradient[e] = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f + 0.125f * value[e];
  }
}

float SimulatedTables::CountedGradient(const BatchKey& batch, uint64_t key, size_t element) {
  if (element == 0) return 1;
  return static_cast<float>(1 + MixBits(HashOf(batch) + MixBits(key) + element) % 512);
}

}  // namespace shoal
