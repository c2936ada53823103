#include "tests/simulation/simulated_program.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace shoal {
namespace {

class SimulatedDataset : public Dataset {
 public:
  explicit SimulatedDataset(uint64_t examples)
      : examples_(static_cast<int64_t>(examples)),
        fields_({{kInputField, {DataType::kFloat32, Shape({1})}}}) {}

  int64_t size() const override { return examples_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    std::memset(outputs[0], 0, indices.size() * sizeof(float));
    return absl::OkStatus();
  }

 private:
  const int64_t examples_;
  const std::vector<FieldSpec> fields_;
};

}  // namespace

std::unique_ptr<Dataset> NewSimulatedDataset(uint64_t examples) {
  return std::make_unique<SimulatedDataset>(examples);
}

SliceArrays SimulatedProgram::Cut(absl::Span<const float* const> parameters) const {
  SliceArrays values;
  for (const Slice& slice : options_.model->table().slices()) {
    const float* first = parameters[slice.variable] + slice.first_element;
    values.emplace_back(first, first + slice.num_elements);
  }
  return values;
}

void SimulatedProgram::Take(double low, double high) {
  options_.fibers->Sleep(absl::Seconds(options_.slowness * options_.random->Uniform(low, high)));
}

absl::Status SimulatedProgram::Train(const TrainArguments& arguments, BatchResult* result,
                                     OnFinal on_final, absl::FunctionRef<void()> on_result) {
  const SimulatedModel& model = *options_.model;
  const BatchKey batch{arguments.batch->epoch, static_cast<uint64_t>(arguments.batch->index)};
  const auto examples = static_cast<uint32_t>(arguments.batch->num_examples);
  options_.begins(batch);
  Take(0.02, 0.25);
  const SliceArrays values = Cut(arguments.parameters);
  const uint64_t hash = SimulatedModel::HashOf(values);
  const BatchReport report = SimulatedModel::Report(hash, batch, examples);
  *result = {report.loss_sum, report.regularization, report.correct, report.examples,
             report.metrics};
  // One that dies has often delivered some of its groups.
  const bool dies = options_.dies(batch);
  uint64_t left = dies ? options_.random->Below(model.variables().size() + 1) : UINT64_MAX;
  if (left == 0) return Die();
  on_result();
  for (uint32_t v = static_cast<uint32_t>(model.variables().size()); v-- > 0;) {
    if (left-- == 0) return Die();
    if (!contributes(v)) continue;
    for (uint32_t s = model.table().first_slice_of(v); s < model.table().first_slice_of(v + 1);
         ++s) {
      float* out = arguments.contributions[v] + model.table()[s].first_element;
      if (options_.synchronous) {
        model.Contribution(hash, batch, s, values[s], out);
      } else {
        for (size_t i = 0; i < values[s].size(); ++i) {
          out[i] = SimulatedModel::CountedContribution(batch, s, i);
        }
      }
      if (options_.is_bad(batch, s)) out[0] = std::numeric_limits<float>::quiet_NaN();
    }
    on_final(v, static_cast<int64_t>(model.table().elements_of(v)));
    if (options_.random->Chance(0.3)) Take(0, 0.04);
  }
  if (dies) return Die();
  return absl::OkStatus();
}

std::vector<v1::MetricSpec> SimulatedProgram::metrics() const {
  std::vector<v1::MetricSpec> specs(2);
  specs[0].set_name("mean");
  specs[0].set_kind(v1::METRIC_KIND_MEAN);
  specs[1].set_name("auc");
  specs[1].set_kind(v1::METRIC_KIND_AUC);
  return specs;
}

absl::Status SimulatedProgram::Die() {
  options_.crash();
  return absl::AbortedError("this process is dead");
}

absl::Status SimulatedProgram::Evaluate(const LoadedBatch& batch,
                                        absl::Span<const float* const> parameters,
                                        absl::Span<const uint64_t> /*versions*/,
                                        BatchResult* result) {
  Take(0.01, 0.1);
  const uint64_t hash = SimulatedModel::HashOf(Cut(parameters));
  *result = BatchResult();
  result->loss_sum = SimulatedModel::EvaluationLoss(hash, static_cast<uint64_t>(batch.index));
  result->examples = 1;
  result->metrics = SimulatedModel::EvaluationMetrics(hash, static_cast<uint64_t>(batch.index));
  return absl::OkStatus();
}

}  // namespace shoal
