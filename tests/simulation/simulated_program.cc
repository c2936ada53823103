#include "tests/simulation/simulated_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "worker/replica/asked_rows.h"

namespace shoal {
namespace {

class SimulatedDataset : public Dataset {
 public:
  SimulatedDataset(uint64_t examples, const SimulatedTables* tables, int64_t first)
      : examples_(static_cast<int64_t>(examples)),
        tables_(*tables),
        first_(first),
        fields_({{kInputField, {DataType::kFloat32, Shape({1})}}}) {
    for (size_t t = 0; t < tables_.size(); ++t) {
      for (size_t f = 0; f < tables_.num_fields(t); ++f) {
        fields_.push_back(RaggedField(absl::StrCat("t", t, "_", f)));
      }
    }
  }

  int64_t size() const override { return examples_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    std::memset(outputs[0], 0, indices.size() * sizeof(float));
    size_t field = 1;
    for (size_t t = 0; t < tables_.size(); ++t) {
      for (size_t f = 0; f < tables_.num_fields(t); ++f, ++field) {
        for (const int64_t index : indices) {
          for (const uint64_t key : tables_.KeysOf(t, f, first_ + index)) {
            RaggedOutput(outputs[field]).AddKey(static_cast<int64_t>(key));
          }
          RaggedOutput(outputs[field]).EndExample();
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const int64_t examples_;
  const SimulatedTables& tables_;
  const int64_t first_;
  std::vector<FieldSpec> fields_;
};

}  // namespace

std::unique_ptr<Dataset> NewSimulatedDataset(uint64_t examples, const SimulatedTables* tables,
                                             int64_t first) {
  return std::make_unique<SimulatedDataset>(examples, tables, first);
}

SimulatedProgram::SimulatedProgram(Options options) : options_(std::move(options)) {
  const SimulatedTables& tables = options_.model->tables();
  size_t field = 1;
  for (size_t t = 0; t < tables.size(); ++t) {
    TableLookups& lookups = lookups_.emplace_back();
    lookups.table = options_.model->first_table() + static_cast<uint32_t>(t);
    std::vector<KeyField>& fields = fields_.emplace_back();
    for (size_t f = 0; f < tables.num_fields(t); ++f) fields.push_back({field++, true});
    if (!asks_for_rows()) lookups.fields = fields;
  }
  rows_.resize(tables.size());
  row_gradients_.resize(tables.size());
  asked_keys_.resize(tables.size());
  asked_values_.resize(tables.size());
}

void SimulatedProgram::UseRows(absl::Span<const TableRows> rows) {
  for (size_t t = 0; t < rows.size(); ++t) rows_[t] = {rows[t].keys->keys, rows[t].values};
}

const float* SimulatedProgram::RowGradients(size_t lookup) const {
  if (!options_.model->tables().is_trained(lookup)) return nullptr;
  return asked_ != nullptr ? asked_->gradients(lookup) : row_gradients_[lookup].data();
}

void SimulatedProgram::AskForRows(const LoadedBatch& batch, bool is_training) {
  const SimulatedTables& tables = options_.model->tables();
  std::vector<AskedRows::Request> requests;
  for (size_t t = 0; t < tables.size(); ++t) {
    std::set<uint64_t> different;
    for (const KeyField& field : fields_[t]) {
      for (const int64_t key : batch.ragged(field.field).keys()) {
        different.insert(static_cast<uint64_t>(key));
      }
    }
    std::vector<uint64_t>& keys = asked_keys_[t];
    keys.assign(different.begin(), different.end());
    const size_t dim = tables.dim(t);
    asked_values_[t].assign(keys.size() * dim, 0);
    row_gradients_[t].resize(std::max<size_t>(keys.size(), 1) * dim);
    rows_[t] = {keys, asked_values_[t].data()};
    // Some rows are asked for by a call of their own.
    const size_t begin = keys.size() > 1 && options_.random->Chance(0.3) ? 1 : 0;
    const auto ask = [&, t](size_t from, size_t to) {
      return AskedRows::Request{t,
                                {keys.data() + from, to - from},
                                asked_values_[t].data() + from * dim,
                                is_training ? row_gradients_[t].data() + from * dim : nullptr};
    };
    if (begin > 0) asked_->Get({ask(0, begin)});
    if (keys.size() > begin) requests.push_back(ask(begin, keys.size()));
  }
  if (!requests.empty()) asked_->Get(requests);
}

void SimulatedProgram::NameKeysAhead() {
  if (next_.empty() || options_.random->Chance(0.2)) return;
  TouchedKeys named = options_.keys_of(next_[0]);
  if (options_.random->Chance(0.3)) {
    for (std::set<uint64_t>& keys : named) {
      if (!keys.empty()) keys.erase(keys.begin());
      keys.insert(options_.random->Below(1000));
    }
  }
  std::vector<std::vector<uint64_t>> lists;
  for (const std::set<uint64_t>& keys : named) lists.emplace_back(keys.begin(), keys.end());
  const std::vector<absl::Span<const uint64_t>> keys(lists.begin(), lists.end());
  asked_->NameAhead(next_[0], keys);
}

SliceArrays SimulatedProgram::Cut(absl::Span<const float* const> parameters) const {
  SliceArrays values;
  for (const Slice& slice : options_.model->table().slices()) {
    if (slice.is_bucket) {
      values.emplace_back();
      continue;
    }
    const float* first = parameters[slice.variable] + slice.first_element;
    values.emplace_back(first, first + slice.num_elements);
  }
  return values;
}

uint64_t SimulatedProgram::HashOfAll(const SliceArrays& values) const {
  const SimulatedTables& tables = options_.model->tables();
  uint64_t rows_hash = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    for (size_t i = 0; i < rows_[t].keys.size(); ++i) {
      rows_hash += tables.HashOfRow(t, rows_[t].keys[i], rows_[t].values + i * tables.dim(t));
    }
  }
  return options_.model->HashWithRows(SimulatedModel::HashOf(values), rows_hash);
}

void SimulatedProgram::ComputeRowGradients(uint64_t hash, const BatchKey& batch) {
  const SimulatedTables& tables = options_.model->tables();
  for (size_t t = 0; t < tables.size(); ++t) {
    const absl::Span<const uint64_t> keys = rows_[t].keys;
    const size_t dim = tables.dim(t);
    row_gradients_[t].resize(std::max<size_t>(keys.size(), 1) * dim);
    for (size_t i = 0; i < keys.size(); ++i) {
      float* const gradient = row_gradients_[t].data() + i * dim;
      if (options_.synchronous) {
        tables.Gradient(hash, batch, t, keys[i], rows_[t].values + i * dim, gradient);
      } else {
        for (size_t e = 0; e < dim; ++e) {
          gradient[e] = SimulatedTables::CountedGradient(batch, keys[i], e);
        }
      }
      const uint32_t bucket = options_.model->table().BucketOf(lookups_[t].table, keys[i]);
      if (options_.is_bad(batch, bucket)) gradient[0] = std::numeric_limits<float>::quiet_NaN();
    }
  }
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
  if (asked_ != nullptr) AskForRows(*arguments.batch, /*is_training=*/true);
  Take(0.02, 0.25);
  if (asked_ != nullptr) NameKeysAhead();
  const SliceArrays values = Cut(arguments.parameters);
  const uint64_t hash = HashOfAll(values);
  const BatchReport report = SimulatedModel::Report(hash, batch, examples);
  *result = {report.loss_sum, report.regularization, report.correct, report.examples,
             report.metrics};
  // One that dies has often delivered some of its groups.
  const bool dies = options_.dies(batch);
  uint64_t left = dies ? options_.random->Below(model.variables().size() + 1) : UINT64_MAX;
  if (left == 0) return Die();
  on_result();
  ComputeRowGradients(hash, batch);
  for (uint32_t v = static_cast<uint32_t>(model.variables().size()); v-- > 0;) {
    if (left-- == 0) return Die();
    if (!contributes(v) || model.table().is_table(v)) continue;
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
  if (asked_ != nullptr) AskForRows(batch, /*is_training=*/false);
  Take(0.01, 0.1);
  const uint64_t hash = HashOfAll(Cut(parameters));
  *result = BatchResult();
  result->loss_sum = SimulatedModel::EvaluationLoss(hash, static_cast<uint64_t>(batch.index));
  result->examples = 1;
  result->metrics = SimulatedModel::EvaluationMetrics(hash, static_cast<uint64_t>(batch.index));
  return absl::OkStatus();
}

}  // namespace shoal
