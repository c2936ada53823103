// Tests that a compiled model computes with the rows of a batch as it would with a whole table.
#include "worker/replica/model_tables.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/data/ragged_rows.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "runtime/config/run_config.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/row_payload.h"
#include "worker/replica/graph_program.h"
#include "worker/replica/replica.h"
#include "worker/replica/table_variable.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDim = 2;
constexpr int64_t kKeys = 64;
constexpr int64_t kExamples = 6;

const std::vector<FieldSpec>& Fields() {
  static const std::vector<FieldSpec> fields = {RaggedField("seen"),
                                                RaggedField("clicked"),
                                                {"place", {DataType::kInt64, {}}},
                                                {kTargetField, {DataType::kFloat32, {1}}}};
  return fields;
}

// Two bags of rows and one row of a table, or of a variable, and a layer. `names` are the columns.
ModelFunction Bags(bool table, bool clicked_in_training = true) {
  return [=](GraphBuilder& builder, absl::Span<const Output> batch, bool is_training) {
    VariableSpec whole;
    whole.name = "item";
    whole.shape = Shape({kKeys, kDim});
    const Output rows = table ? builder.TableRows("item", kDim) : builder.GetVariable(whole);
    std::vector<Output> bags;
    for (const char* column : {"seen", "clicked"}) {
      if (std::string(column) == "clicked" && is_training && !clicked_in_training) continue;
      const FieldPlaceholders field = FindField(Fields(), batch, column);
      const Output indices = table ? builder.TableIndices("item", column) : field.keys;
      bags.push_back(ops::EmbeddingBag(builder, rows, indices, field.offsets));
    }
    const Output places =
        table ? builder.TableIndices("item", "place") : FindField(Fields(), batch, "place").values;
    bags.push_back(ops::Gather(builder, rows, places));
    DenseOptions layer;
    layer.units = 1;
    layer.scope = "layer";
    ModelOutputs outputs;
    Output x = bags[0];
    for (size_t i = 1; i < bags.size(); ++i) x = ops::Mul(builder, x, bags[i]);
    outputs.predictions = Dense(builder, x, layer);
    outputs.loss = AddLoss(builder, LossKind::kMeanSquaredError, outputs.predictions, batch.back());
    return outputs;
  };
}

absl::StatusOr<std::unique_ptr<GraphProgram>> Make(ModelFunction model, const char* devices,
                                                   const char* extra = "") {
  v1::RunConfig run = *ParseRunConfig(extra, "test");
  run.mutable_deployment()->set_num_ps_tasks(0);
  run.mutable_deployment()->set_devices(devices);
  run.set_replica_batch_size(kExamples);
  ResolveDefaults(TaskCounts(), &run);
  GraphProgram::Options options;
  options.run = std::move(run);
  options.fields = Fields();
  options.model = std::move(model);
  options.backend = CpuKernelBackend();
  options.compute_name = "test";
  return GraphProgram::Create(std::move(options));
}

float ValueOf(uint64_t key, int64_t i) { return 0.25f * static_cast<float>(key) - 0.5f * i; }

struct Batch {
  explicit Batch(const std::vector<std::vector<int64_t>>& keys) {
    for (size_t i = 0; i < keys.size(); ++i) {
      seen.AddExample(keys[i]);
      clicked.AddExample(keys[keys.size() - 1 - i]);
      targets.push_back(static_cast<float>(i));
      places.push_back(static_cast<int64_t>(i) % 3);
    }
    loaded.num_examples = static_cast<int64_t>(keys.size());
    loaded.fields = {&seen, &clicked, places.data(), targets.data()};
  }
  RaggedRows seen, clicked;
  std::vector<float> targets;
  std::vector<int64_t> places;
  LoadedBatch loaded;
};

// The results of a batch: the loss, the gradient of the layer's weights, and that of all rows.
struct Computed {
  double loss_sum = 0;
  double evaluated_loss_sum = 0;
  std::vector<float> weights;
  std::vector<float> rows = std::vector<float>(kKeys * kDim);
};

void FillWeights(uint32_t set, const SliceTable& slices, const std::vector<ExchangeGroup>& groups,
                 Replica* replica) {
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].buckets) continue;
    for (size_t i = 0; i < groups[g].slices.size(); ++i) {
      const Slice& slice = slices[groups[g].slices[i]];
      float* const value = replica->pull_data(set, g, 1)[i];
      for (uint64_t k = 0; k < slice.num_elements; ++k) {
        const uint64_t element = slice.first_element + k;
        value[k] = slice.num_elements == kKeys * kDim ? ValueOf(element / kDim, element % kDim)
                                                      : 0.5f + static_cast<float>(k);
      }
    }
  }
}

void FillRows(uint32_t set, const std::vector<ExchangeGroup>& groups, Replica* replica) {
  for (uint32_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; groups[g].buckets && i < groups[g].slices.size(); ++i) {
      const RowPull& pull = replica->rows()->pulls(set, g)[i];
      for (uint32_t k = 0; k < pull.num_keys; ++k) {
        for (int64_t d = 0; d < kDim; ++d) pull.values[k * kDim + d] = ValueOf(pull.keys[k], d);
      }
    }
  }
}

class Trained {
 public:
  explicit Trained(std::unique_ptr<GraphProgram> program)
      : program_(std::move(program)),
        slices_(*SliceTable::Create(program_->variables(), 1 << 12)),
        groups_(MakeExchangeGroups(slices_, std::vector<uint32_t>(slices_.size(), 0))),
        replica_(program_.get(), &slices_, &groups_) {}

  Computed On(Batch* batch, uint32_t set) {
    const std::unique_ptr<BatchDigest> digest = replica_.MakeDigest();
    batch->loaded.index = ++num_batches_;
    FillWeights(set, slices_, groups_, &replica_);
    if (digest != nullptr) {
      EXPECT_TRUE(digest->Update(batch->loaded).ok());
      batch->loaded.digest = digest.get();
      for (const uint32_t row_set : {set, RowSets::kEvaluationSet}) {
        replica_.rows()->Prepare(row_set, &GetKeys(batch->loaded));
        FillRows(row_set, groups_, &replica_);
      }
    }
    Computed computed;
    const absl::Status trained = replica_.Train(
        batch->loaded, set, set, [&](uint32_t group, bool finite, const BatchReport& report) {
          EXPECT_TRUE(finite);
          if (group == replica_.report_group()) computed.loss_sum = report.loss_sum;
          Take(group, set, &computed);
        });
    EXPECT_TRUE(trained.ok()) << trained;
    BatchResult result;
    EXPECT_TRUE(replica_.Evaluate(batch->loaded, set, &result).ok());
    computed.evaluated_loss_sum = result.loss_sum;
    return computed;
  }

 private:
  void Take(uint32_t group, uint32_t set, Computed* computed) {
    for (size_t i = 0; i < groups_[group].slices.size(); ++i) {
      const Slice& slice = slices_[groups_[group].slices[i]];
      const std::string& name = program_->variables()[slice.variable].name();
      const void* const data = replica_.push_data(set, group)[i];
      if (!groups_[group].buckets) {
        const auto* const values = static_cast<const float*>(data);
        if (name == "item") computed->rows.assign(values, values + slice.num_elements);
        if (name == "layer/weights") computed->weights.assign(values, values + slice.num_elements);
        continue;
      }
      RowScratch scratch;
      const std::optional<RowGradients> rows = DecodeRows(
          {ContributionKind::kRows, data, replica_.push_bytes(set, group)[i]}, kDim, &scratch);
      ASSERT_TRUE(rows.has_value());
      for (size_t k = 0; k < rows->keys.size(); ++k) {
        for (int64_t d = 0; d < kDim; ++d) {
          computed->rows[rows->keys[k] * kDim + static_cast<uint64_t>(d)] =
              rows->gradients[k * kDim + static_cast<uint64_t>(d)];
        }
      }
    }
  }

  const std::unique_ptr<GraphProgram> program_;
  const SliceTable slices_;
  const std::vector<ExchangeGroup> groups_;
  Replica replica_;
  int64_t num_batches_ = 0;
};

TEST(ModelTablesTest, RowsOfABatchGiveTheSameAsAWholeTable) {
  for (const char* devices : {"/cpu:0", "/cpu:0,/cpu:1"}) {
    Trained with_table(*Make(Bags(/*table=*/true), devices));
    Trained with_variable(*Make(Bags(/*table=*/false), devices));
    // The second batch has more keys than there was room for, the third has a clone's example only.
    const std::vector<std::vector<std::vector<int64_t>>> batches = {
        {{1}, {3}, {1}, {}, {9}, {2}},
        {{1, 5, 9, 13, 17, 21}, {2, 6, 10, 14}, {3, 7, 11}, {4, 8, 63}, {}, {1, 2, 3, 40, 50, 60}},
        {{7}},
        {{}, {}, {}, {}, {}, {}}};
    for (size_t b = 0; b < batches.size(); ++b) {
      Batch batch(batches[b]), same(batches[b]);
      const Computed got = with_table.On(&batch, b % 2);
      const Computed expected = with_variable.On(&same, b % 2);
      EXPECT_EQ(got.loss_sum, expected.loss_sum) << devices << b;
      EXPECT_EQ(got.evaluated_loss_sum, expected.evaluated_loss_sum) << devices << b;
      EXPECT_EQ(got.weights, expected.weights) << devices << b;
      EXPECT_EQ(got.rows, expected.rows) << devices << b;
    }
  }
}

TEST(ModelTablesTest, ATableIsDeclaredAfterTheVariablesAsTheRunFileSays) {
  const auto program = *Make(Bags(true), "/cpu:0", R"pb(
    optimizer { learning_rate: 0.5 }
    table {
      name: "it*"
      dim: 2
      optimizer {
        rowwise_adagrad { learning_rate: 0.25 }
        l2: 0.125
      }
      initializer { normal { stddev: 0.01 } }
      admission { min_count: 3 }
      expiry { idle_updates: 9 }
      buckets: 4
    })pb");
  const v1::VariableSpec& item = program->variables().back();
  EXPECT_EQ(item.name(), "item");
  EXPECT_THAT(item.shape(), ElementsAre(2));
  EXPECT_EQ(item.update(), v1::UPDATE_KIND_OPTIMIZER);
  EXPECT_EQ(item.initializer().b(), 0.01);
  EXPECT_EQ(item.table().buckets(), 4u);
  EXPECT_TRUE(item.table().rowwise());
  EXPECT_EQ(item.table().optimizer().learning_rate(), 0.25);
  EXPECT_EQ(item.table().l2(), 0.125);
  EXPECT_EQ(item.table().min_count(), 3u);
  EXPECT_EQ(item.table().idle_updates(), 9u);
  EXPECT_FALSE(program->contributes(static_cast<uint32_t>(program->variables().size()) - 1));
  ASSERT_EQ(program->lookups().size(), 1u);
  EXPECT_THAT(program->lookups()[0].fields,
              ElementsAre(KeyField{0}, KeyField{1}, KeyField{2, false}));
}

TEST(ModelTablesTest, AGroupOfTheOptimizerScalesTheLearningRateOfATable) {
  const auto rate = [](const char* groups) {
    const auto program = Make(Bags(true), "/cpu:0", groups);
    EXPECT_TRUE(program.ok()) << program.status();
    return (*program)->variables().back().table().optimizer().learning_rate();
  };
  EXPECT_EQ(rate("optimizer { learning_rate: 0.5 group { variables: 'layer/.*' learning_rate: 1 } "
                 "group { variables: 'it.*' learning_rate_multiplier: 0.25 } }"),
            0.125);
  EXPECT_EQ(rate("optimizer { learning_rate: 0.5 group { variables: 'item' learning_rate: 0 } }"),
            0);
  EXPECT_EQ(rate("optimizer { group { variables: '.*' learning_rate_multiplier: 0.5 } } "
                 "table { name: 'item' dim: 2 optimizer { sgd { learning_rate: 0.25 } } }"),
            0.125);
}

TEST(ModelTablesTest, AllTablesTogetherHaveAboutAThousandBuckets) {
  EXPECT_EQ(DefaultBuckets(1), 256u);
  EXPECT_EQ(DefaultBuckets(4), 256u);
  EXPECT_EQ(DefaultBuckets(5), 128u);
  EXPECT_EQ(DefaultBuckets(26), 32u);
  EXPECT_EQ(DefaultBuckets(1000), 16u);
}

TEST(ModelTablesTest, TablesThatDoNotFitAreRefused) {
  EXPECT_THAT(
      std::string(Make(Bags(true), "/cpu:0", "table { name: 'item' dim: 3 }").status().message()),
      HasSubstr("table item has rows of 2 numbers, but `table` in the run file says dim: 3"));
  EXPECT_THAT(
      std::string(Make(Bags(true, /*clicked_in_training=*/false), "/cpu:0").status().message()),
      HasSubstr("\"clicked\" are read from table item only without is_training"));
}

TEST(ModelTablesTest, TrainableMayNameATable) {
  const auto program = Make(Bags(true), "/cpu:0", "trainable: 'item'");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->variables().back().update(), v1::UPDATE_KIND_OPTIMIZER);
  EXPECT_EQ((*program)->variables().front().update(), v1::UPDATE_KIND_NONE);
  EXPECT_THAT(std::string(Make(Bags(true), "/cpu:0", "trainable: 'itme'").status().message()),
              HasSubstr("none of the variables layer/weights, layer/biases, item; correct it"));
}

TEST(ModelTablesTest, SettingsOfATableThatTheModelDoesNotReadAreRefused) {
  const auto error = [](bool with_table, const char* extra) {
    return std::string(Make(Bags(with_table), "/cpu:0", extra).status().message());
  };
  EXPECT_THAT(error(true, "table { name: 'itme' dim: 2 }"),
              HasSubstr("table: the run file has settings of \"itme\", but the model reads only "
                        "item; correct its name"));
  EXPECT_THAT(error(false, "table { name: 'item' dim: 2 }"), HasSubstr("reads no tables"));
  EXPECT_EQ(error(true, "table { name: 'it*' dim: 2 }"), "");
}

}  // namespace
}  // namespace shoal
