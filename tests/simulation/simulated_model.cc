#include "tests/simulation/simulated_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/log.h"
#include "ml/optim/gradient_clipping.h"
#include "ml/optim/learning_rate_schedule.h"
#include "ml/optim/optimizer_config.h"
#include "ml/optim/update_rule.h"
#include "ml/tensor/initializer.h"

namespace shoal {
namespace {

constexpr uint64_t kSliceBytes = 64;

std::vector<v1::VariableSpec> MakeVariables(uint64_t seed, bool synchronous,
                                            const SimulatedTables& tables, uint32_t* first_table) {
  std::vector<v1::VariableSpec> variables;
  const uint64_t count = 1 + MixBits(seed) % 4;
  for (uint64_t i = 0; i <= count; ++i) {
    const uint64_t bits = MixBits(seed + 77 * (i + 1));
    v1::VariableSpec& spec = variables.emplace_back();
    spec.set_name(absl::StrCat("v", i));
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.add_shape(1 + static_cast<int64_t>(bits % 40));
    spec.set_trainable(true);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    spec.mutable_initializer()->set_kind(v1::Initializer::KIND_UNIFORM);
    spec.mutable_initializer()->set_a(synchronous ? -1 : 0);
    spec.mutable_initializer()->set_b(synchronous ? 1 : 0);
    if (!synchronous) continue;
    if (i > 0 && bits >> 60 == 0) spec.set_update(v1::UPDATE_KIND_NONE);
    if (i > 0 && bits >> 60 == 1) spec.set_update(v1::UPDATE_KIND_ASSIGN);
    if (i > 0 && bits >> 60 == 2) {
      spec.set_update(v1::UPDATE_KIND_MOVING_AVERAGE);
      spec.set_decay(0.75);
    }
  }
  // If they come first, a bucket's pushes carry the reports of batches.
  const bool tables_first = MixBits(seed + 1) % 3 == 0;
  *first_table = tables_first ? 0 : static_cast<uint32_t>(variables.size());
  variables.insert(variables.begin() + *first_table, tables.specs().begin(), tables.specs().end());
  return variables;
}

uint64_t HashBatch(uint64_t values_hash, const BatchKey& batch) {
  return MixBits(values_hash ^ MixBits((uint64_t{batch.epoch} << 32) + batch.index));
}

size_t Stride(size_t n) { return (n + 15) / 16 * 16; }

}  // namespace

SimulatedModel::SimulatedModel(uint64_t seed, bool synchronous, bool has_tables)
    : tables_(has_tables ? SimulatedTables(seed, synchronous) : SimulatedTables()),
      variables_(MakeVariables(seed, synchronous, tables_, &first_table_)),
      table_(*SliceTable::Create(variables_, kSliceBytes)) {}

SliceArrays SimulatedModel::Zeros() const {
  SliceArrays arrays;
  for (const Slice& slice : table_.slices()) {
    arrays.emplace_back(slice.is_bucket ? 0 : slice.num_elements);
  }
  return arrays;
}

uint64_t SimulatedModel::HashWithRows(uint64_t values_hash, uint64_t rows_hash) const {
  return tables_.size() == 0 ? values_hash : MixBits(values_hash ^ MixBits(rows_hash));
}

uint64_t SimulatedModel::HashOf(const SliceArrays& values) {
  uint64_t hash = 0;
  for (const std::vector<float>& value : values) {
    hash = Fingerprint64(
        {reinterpret_cast<const char*>(value.data()), value.size() * sizeof(float)}, hash);
  }
  return hash;
}

void SimulatedModel::Contribution(uint64_t values_hash, const BatchKey& batch, uint32_t slice,
                                  const std::vector<float>& value, float* contribution) const {
  const uint64_t key = HashBatch(values_hash, batch) + slice;
  for (size_t i = 0; i < value.size(); ++i) {
    const uint64_t bits = MixBits(key + 1000 * (i + 1));
    contribution[i] = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f + 0.125f * value[i];
  }
}

float SimulatedModel::CountedContribution(const BatchKey& batch, uint32_t slice, size_t element) {
  return static_cast<float>(1 + (HashBatch(slice, batch) + element) % 512);
}

BatchReport SimulatedModel::Report(uint64_t values_hash, const BatchKey& batch, uint32_t examples) {
  const uint64_t key = HashBatch(values_hash, batch);
  BatchReport report;
  report.loss_sum = static_cast<double>(key >> 40) * 1e-3;
  report.regularization = static_cast<double>(key & 0xffff) * 1e-4;
  report.correct = key % (examples + 1);
  report.examples = examples;
  // A batch may have nothing to measure.
  const auto weight = static_cast<double>(key % 3);
  report.metrics = {{weight * static_cast<double>(key >> 44) * 1e-3, weight, {}}};
  return report;
}

MetricSums SimulatedModel::EvaluationMetrics(uint64_t values_hash, uint64_t block) {
  const uint64_t key = MixBits(values_hash - block);
  const std::vector<ScoreCount> scores = {{static_cast<uint32_t>(key % 50), 1, 0},
                                          {50 + static_cast<uint32_t>(key % 7), 0, 1},
                                          {60 + static_cast<uint32_t>(key % 90), 1, 2}};
  return {{static_cast<double>(key >> 44) * 1e-3, 1, {}}, {0, 0, scores}};
}

double SimulatedModel::EvaluationLoss(uint64_t values_hash, uint64_t block) {
  return static_cast<double>(MixBits(values_hash + block) >> 30) * 1e-5;
}

SequentialRun::SequentialRun(const SimulatedModel& model, const v1::RunConfig& run,
                             const StepPlan& plan, const BatchPlan& batches,
                             const std::set<BatchKey>& skipped)
    : model_(model),
      run_(run),
      plan_(plan),
      batches_(batches),
      skipped_(skipped),
      values_(model.Zeros()),
      tables_(&model.tables(), &model.table(), model.first_table(), run) {
  const std::unique_ptr<UpdateRule> rule =
      *UpdateRule::Create(*OptimizerOptionsFrom(run.optimizer()));
  for (uint32_t s = 0; s < model.table().size(); ++s) {
    const Slice& slice = model.table()[s];
    const v1::VariableSpec& spec = model.variables()[slice.variable];
    if (slice.is_bucket) {
      slots_.emplace_back();
      continue;
    }
    InitializeRange(UniformInitializer(spec.initializer().a(), spec.initializer().b()), run.seed(),
                    VariableNameHash(spec.name()), slice.first_element,
                    slice.first_element + slice.num_elements, values_[s].data());
    std::vector<float>& slots = slots_.emplace_back();
    if (spec.update() != v1::UPDATE_KIND_OPTIMIZER) continue;
    for (const SlotSpec& slot : rule->slots()) {
      slots.resize(slots.size() + Stride(slice.num_elements), slot.initial_value);
    }
  }
}

uint64_t SequentialRun::HashForBlock(uint64_t block) const {
  const TouchedKeys keys = model_.tables().KeysOfExamples(
      {SimulatedTables::kFirstTestExample + static_cast<int64_t>(block)});
  return model_.HashWithRows(SimulatedModel::HashOf(values_), tables_.HashOfRows(keys, version_));
}

void SequentialRun::AddUp(const std::vector<uint32_t>& positions, SliceArrays* sums,
                          uint64_t* examples, StepSums* report) {
  const uint64_t values_hash = SimulatedModel::HashOf(values_);
  const bool is_alone = plan_.At(version_).num_batches == 1;
  std::vector<float> contribution(kSliceBytes / sizeof(float));
  for (uint32_t position : positions) {
    const BatchKey batch = plan_.BatchAt(version_, position);
    const uint32_t n = plan_.ExamplesIn(batch);
    *examples += n;
    const float weight = is_alone ? 1.0f : static_cast<float>(n);
    const TouchedKeys keys = model_.tables().KeysOfBatch(batches_, batch);
    const uint64_t hash = model_.HashWithRows(values_hash, tables_.HashOfRows(keys, version_));
    tables_.Add(batch, keys, hash, weight, version_);
    for (uint32_t s = 0; s < sums->size(); ++s) {
      model_.Contribution(hash, batch, s, values_[s], contribution.data());
      for (size_t i = 0; i < (*sums)[s].size(); ++i) {
        const float product = weight * contribution[i];
        (*sums)[s][i] = position == positions[0] ? product : (*sums)[s][i] + product;
      }
    }
    const BatchReport facts = SimulatedModel::Report(hash, batch, n);
    report->loss_sum += facts.loss_sum;
    report->regularization += facts.regularization * n;
    report->correct += facts.correct;
    report->metric_sum += facts.metrics[0].sum;
    report->metric_weight += facts.metrics[0].weight;
    report->examples += n;
  }
  if (report->examples > 0) report->regularization /= static_cast<double>(report->examples);
}

SequentialRun::StepSums SequentialRun::Step() {
  std::vector<uint32_t> positions;
  for (uint32_t p = 0; p < plan_.At(version_).num_batches; ++p) {
    if (skipped_.count(plan_.BatchAt(version_, p)) == 0) positions.push_back(p);
  }
  StepSums report;
  if (positions.empty()) {
    ++version_;
    return report;
  }
  SliceArrays sums = model_.Zeros();
  uint64_t examples = 0;
  AddUp(positions, &sums, &examples, &report);
  const float scale =
      plan_.At(version_).num_batches == 1 ? 1.0f : 1.0f / static_cast<float>(examples);

  float clip = 1.0f;
  if (run_.optimizer().clip_by_global_norm() > 0) {
    double squares = 0;
    for (uint32_t s = 0; s < sums.size(); ++s) {
      if (model_.update_of(s) != v1::UPDATE_KIND_OPTIMIZER) continue;
      const double sum =
          model_.table()[s].is_bucket ? tables_.SquaresOfSums(s) : SumOfSquares(sums[s]);
      squares += sum * static_cast<double>(scale) * static_cast<double>(scale);
    }
    const double limit = run_.optimizer().clip_by_global_norm();
    clip = static_cast<float>(limit / std::max(std::sqrt(squares), limit));
  }

  const std::unique_ptr<UpdateRule> rule =
      *UpdateRule::Create(*OptimizerOptionsFrom(run_.optimizer()));
  const LearningRateSchedule schedule =
      *LearningRateSchedule::Create(*ScheduleOptionsFrom(run_.optimizer(), 0));
  for (uint32_t s = 0; s < sums.size(); ++s) {
    std::vector<float>& value = values_[s];
    const v1::VariableSpec& spec = model_.variables()[model_.table()[s].variable];
    if (spec.update() == v1::UPDATE_KIND_NONE || spec.has_table()) continue;
    if (spec.update() == v1::UPDATE_KIND_OPTIMIZER) {
      UpdateStep step;
      step.step = static_cast<int64_t>(version_) + 1;
      step.learning_rate = schedule.At(static_cast<int64_t>(version_));
      step.gradient_scale = scale * clip;
      step.value = step.new_value = value.data();
      step.gradient = sums[s].data();
      for (size_t k = 0; k < rule->slots().size(); ++k) {
        step.slots[k] = step.new_slots[k] = slots_[s].data() + k * Stride(value.size());
      }
      step.n = value.size();
      rule->Apply(step);
      continue;
    }
    if (scale != 1.0f) {
      for (float& x : sums[s]) x *= scale;
    }
    if (spec.update() == v1::UPDATE_KIND_ASSIGN) {
      value = sums[s];
    } else {
      MovingAverage::Create(spec.decay())
          ->Apply(value.data(), sums[s].data(), value.data(), value.size());
    }
  }
  tables_.Apply(version_, scale * clip);
  ++version_;
  return report;
}

}  // namespace shoal
