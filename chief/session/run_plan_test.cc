#include "chief/session/run_plan.h"

#include <gmock/gmock.h>

#include <string>

#include "gtest/gtest.h"

#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::ModelDeclaration Model() {
  v1::ModelDeclaration model;
  v1::VariableSpec* weights = model.add_variables();
  weights->set_name("weights");
  weights->add_shape(4);
  weights->set_dtype(v1::DATA_TYPE_FLOAT32);
  weights->set_update(v1::UPDATE_KIND_OPTIMIZER);
  model.set_train_examples(100);
  model.set_test_examples(10);
  model.set_evaluation_blocks(1);
  model.set_compute_fingerprint("cpu");
  model.set_data_fingerprint(7);
  return model;
}

v1::RunConfig AdamRun() {
  v1::RunConfig run;
  run.mutable_optimizer()->mutable_adam();
  run.set_batch_size(10);
  run.set_num_epochs(2);
  ResolveDefaults(TaskCounts(), &run);
  return run;
}

v1::Manifest ManifestOf(const v1::RunConfig& run, const v1::ModelDeclaration& model) {
  const auto plan = std::move(PlanRun(run, 1, model, nullptr)).value();
  v1::Manifest manifest;
  for (const v1::VariableSpec& variable : model.variables()) *manifest.add_variables() = variable;
  *manifest.mutable_shard_map() = plan->shard_map;
  plan->steps.ToProto(manifest.mutable_plan());
  manifest.set_seed(1);
  manifest.set_step(5);
  manifest.set_data_fingerprint(model.data_fingerprint());
  manifest.set_optimizer("adam");
  return manifest;
}

std::string ResumeError(const v1::RunConfig& run, const v1::ModelDeclaration& model) {
  const v1::Manifest manifest = ManifestOf(AdamRun(), Model());
  const absl::Status status = PlanRun(run, 1, model, &manifest).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  return std::string(status.message());
}

TEST(RunPlanTest, TheSeedChangesAtAnEpochsStartOnly) {
  v1::RunConfig run = AdamRun();
  run.set_seed(4);
  EXPECT_THAT(ResumeError(run, Model()),
              HasSubstr("seed is 4 (was 1), but the checkpoint is in the middle of an epoch, where "
                        "it cannot change; use --seed=1"));
  v1::Manifest manifest = ManifestOf(AdamRun(), Model());
  manifest.set_step(10);
  EXPECT_TRUE(PlanRun(run, 1, Model(), &manifest).ok());
}

TEST(RunPlanTest, OnlyTheSettingThatChangedInAnEpochIsNamedWithTheWayOut) {
  v1::RunConfig run = AdamRun();
  run.set_batch_size(20);
  EXPECT_EQ(ResumeError(run, Model()),
            "batch_size x num_clones is 20 (was 10), but the checkpoint is in the middle of an "
            "epoch, where this cannot change; use the old value, or finish the epoch with it "
            "first: --num_epochs=1");
  run.mutable_sync()->set_replicas_to_aggregate(2);
  EXPECT_THAT(ResumeError(run, Model()),
              StartsWith("batch_size x num_clones is 20 (was 10) and replicas_to_aggregate is 2 "
                         "(was 1), but "));
  run.set_batch_size(10);
  EXPECT_THAT(ResumeError(run, Model()), StartsWith("replicas_to_aggregate is 2 (was 1), but "));
  v1::Manifest manifest = ManifestOf(AdamRun(), Model());
  manifest.set_step(15);
  EXPECT_THAT(std::string(PlanRun(run, 1, Model(), &manifest).status().message()),
              EndsWith("--num_epochs=2"));
}

TEST(RunPlanTest, TheComputeTypeChangesAtAnEpochsStartOnly) {
  v1::RunConfig run = AdamRun();
  run.set_compute_dtype("bfloat16");
  EXPECT_THAT(ResumeError(run, Model()),
              HasSubstr("compute_dtype is bfloat16 (was float32), but the checkpoint is in the "
                        "middle of an epoch, where it cannot change; use --compute_dtype=float32"));
  v1::Manifest manifest = ManifestOf(AdamRun(), Model());
  manifest.set_step(10);
  EXPECT_TRUE(PlanRun(run, 1, Model(), &manifest).ok());
  manifest.set_step(5);
  manifest.set_compute_dtype("bfloat16");
  EXPECT_TRUE(PlanRun(run, 1, Model(), &manifest).ok());
  run.set_compute_dtype("float32");
  EXPECT_THAT(std::string(PlanRun(run, 1, Model(), &manifest).status().message()),
              HasSubstr("compute_dtype is float32 (was bfloat16)"));
}

TEST(RunPlanTest, TheCheckpointOfAnotherModelIsNamedWithTheWayOut) {
  v1::ModelDeclaration other = Model();
  other.mutable_variables(0)->set_name("fc1/weights");
  v1::RunConfig run = AdamRun();
  run.set_out("/runs/a");
  const std::string error = ResumeError(run, other);
  EXPECT_THAT(error, HasSubstr("--out: /runs/a has the checkpoint of step 5 of another model: "
                               "variable 0 is "));
  EXPECT_THAT(error,
              HasSubstr(" and fc1/weights in the model; train that model, or give this model "
                        "another --out"));
}

v1::ModelDeclaration ModelWithTable() {
  v1::ModelDeclaration model = Model();
  v1::VariableSpec* const user = model.add_variables();
  *user = model.variables(0);
  user->set_name("user");
  user->mutable_initializer()->set_kind(v1::Initializer::KIND_UNIFORM);
  user->mutable_initializer()->set_b(0.5);
  v1::TableSpec* const table = user->mutable_table();
  table->set_buckets(16);
  table->mutable_optimizer()->set_learning_rate(0.5);
  table->mutable_optimizer()->mutable_adagrad()->set_epsilon(0.25);
  return model;
}

TEST(RunPlanTest, TheSeedOfARunWithTablesStays) {
  v1::Manifest manifest = ManifestOf(AdamRun(), ModelWithTable());
  manifest.set_step(10);
  v1::RunConfig run = AdamRun();
  run.set_out("/runs/a");
  run.set_seed(4);
  const absl::Status status = PlanRun(run, 1, ModelWithTable(), &manifest).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("seed is 4 (was 1), but the run has tables, whose rows have initial values "
                        "that follow from the seed; use --seed=1, or the other seed in a new run "
                        "with --init_from=/runs/a and another --out"));
  // The seed of synthetic data changes their content too.
  v1::ModelDeclaration other_data = ModelWithTable();
  other_data.set_data_fingerprint(8);
  EXPECT_EQ(PlanRun(run, 1, other_data, &manifest).status(), status);
  EXPECT_EQ(CheckSameAsCheckpoint(run, other_data, manifest), status);
  run.set_seed(1);
  EXPECT_TRUE(PlanRun(run, 1, ModelWithTable(), &manifest).ok());
}

TEST(RunPlanTest, AnotherSettingOfATableIsNamedWithBothValues) {
  const v1::Manifest manifest = ManifestOf(AdamRun(), ModelWithTable());
  v1::ModelDeclaration other;
  v1::RunConfig run = AdamRun();
  run.set_out("/runs/a");
  const auto error = [&] {
    return std::string(PlanRun(run, 1, other, &manifest).status().message());
  };
  const auto changed = [&] {
    other = ModelWithTable();
    return other.mutable_variables(1);
  };
  changed()->mutable_table()->set_buckets(32);
  EXPECT_THAT(error(), HasSubstr("table user: buckets is 16 in the checkpoint and 32 in the model; "
                                 "train that model, or give this model --init_state "
                                 "--init_from=/runs/a, which keep its rows, slots and counts, and "
                                 "another --out"));
  changed()->mutable_table()->mutable_optimizer()->mutable_sgd();
  EXPECT_THAT(error(),
              HasSubstr("table user: optimizer is adagrad { epsilon: 0.25 } in the "
                        "checkpoint and sgd { } in the model; train that model, or give this model "
                        "--init_from=/runs/a, which keeps the values of its rows, and "
                        "another --out"));
  changed()->mutable_table()->set_rowwise(true);
  EXPECT_THAT(error(), HasSubstr("and rowwise adagrad { epsilon: 0.25 } in the model"));
  changed()->mutable_table()->set_idle_updates(3);
  EXPECT_THAT(error(), HasSubstr("expiry.idle_updates is 0 in the checkpoint and 3 in the model; "
                                 "train that model, or give this model --init_state "
                                 "--init_from=/runs/a, which keep its rows, slots and counts"));
  changed()->mutable_table()->set_min_count(2);
  EXPECT_THAT(error(), HasSubstr("admission.min_count is 0 in the checkpoint and 2 in the model"));
  changed()->mutable_initializer()->set_b(1);
  EXPECT_THAT(error(), HasSubstr("initializer is uniform(0, 0.5) in the checkpoint and "
                                 "uniform(0, 1) in the model; train that model, or give this "
                                 "model --init_state --init_from=/runs/a"));
  changed()->set_shape(0, 8);
  EXPECT_THAT(error(), HasSubstr("table user has shape [4] in the checkpoint and [8] in"));
  changed()->clear_table();
  EXPECT_THAT(error(), HasSubstr("kind is a table in the checkpoint and a dense variable in"));
}

TEST(RunPlanTest, TheLearningRateOfATableMayChangeWhenARunIsResumed) {
  const v1::Manifest manifest = ManifestOf(AdamRun(), ModelWithTable());
  v1::ModelDeclaration other = ModelWithTable();
  v1::OptimizerConfig* const rule =
      other.mutable_variables(1)->mutable_table()->mutable_optimizer();
  rule->set_learning_rate(0.125);
  rule->mutable_schedule()->set_warmup_steps(3);
  const auto plan = PlanRun(AdamRun(), 1, other, &manifest);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->variables[1].table().optimizer().learning_rate(), 0.125);
}

TEST(RunPlanTest, GroupsMustHaveVariablesAndMayChangeWhenARunIsResumed) {
  v1::RunConfig run = AdamRun();
  run.mutable_optimizer()->add_group()->set_variables("bias");
  EXPECT_THAT(std::string(PlanRun(run, 1, Model(), nullptr).status().message()),
              StartsWith("optimizer.group[0].variables: \"bias\" matches the whole name of none of "
                         "the variables weights"));
  run.mutable_optimizer()->mutable_group(0)->set_variables("w.*");
  run.mutable_optimizer()->mutable_group(0)->set_learning_rate(0.5);
  const v1::Manifest manifest = ManifestOf(AdamRun(), Model());
  EXPECT_TRUE(PlanRun(run, 1, Model(), &manifest).ok());
}

TEST(RunPlanTest, ARunThatWouldFreezeATableIsRefused) {
  v1::RunConfig run = AdamRun();
  run.add_trainable("weights");
  EXPECT_THAT(std::string(PlanRun(run, 1, ModelWithTable(), nullptr).status().message()),
              StartsWith("trainable: leaves out the table \"user\", which cannot be frozen; add"));
  EXPECT_TRUE(PlanRun(run, 1, Model(), nullptr).ok());
  run.add_trainable("user");
  EXPECT_TRUE(PlanRun(run, 1, ModelWithTable(), nullptr).ok());
  run.mutable_optimizer()->add_group()->set_variables("user");
  run.mutable_optimizer()->mutable_group(0)->set_frozen(true);
  EXPECT_THAT(std::string(PlanRun(run, 1, ModelWithTable(), nullptr).status().message()),
              StartsWith("optimizer.group[0].variables: \"user\" matches the table \"user\""));
}

TEST(RunPlanTest, AVariableThatIsFrozenNowIsNamedWhenARunIsResumed) {
  v1::ModelDeclaration frozen = Model();
  frozen.mutable_variables(0)->set_update(v1::UPDATE_KIND_NONE);
  EXPECT_THAT(ResumeError(AdamRun(), frozen),
              HasSubstr("variable weights is trained in the checkpoint and frozen in the model"));
}

// Returns a run of 1048576 slices.
v1::RunConfig RunOfManySlices(v1::ModelDeclaration* model) {
  model->mutable_variables(0)->set_shape(0, 16 << 20);
  v1::RunConfig run = AdamRun();
  run.mutable_deployment()->set_num_ps_tasks(2);
  run.mutable_cluster()->set_slice_bytes(64);
  return run;
}

v1::ModelDeclaration ModelOfManyVariables() {
  v1::ModelDeclaration model = Model();
  for (int i = 0; i < 10000; ++i) {
    *model.add_variables() = model.variables(0);
    model.mutable_variables(i + 1)->set_name(std::string(80, 'x') + std::to_string(i));
  }
  return model;
}

TEST(RunPlanTest, APlanThatDoesNotFitAMessageNamesTheRemedy) {
  v1::ModelDeclaration model = Model();
  v1::RunConfig run = RunOfManySlices(&model);
  const absl::Status slices = PlanRun(run, 2, model, nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(slices)) << slices;
  EXPECT_THAT(std::string(slices.message()), HasSubstr("cluster.slice_bytes is 64, which cuts the "
                                                       "model into 1048576 slices"));
  EXPECT_THAT(std::string(slices.message()), EndsWith(": raise cluster.slice_bytes"));
  run.mutable_cluster()->clear_slice_bytes();
  EXPECT_TRUE(PlanRun(run, 2, model, nullptr).ok());
  const absl::Status variables = PlanRun(run, 2, ModelOfManyVariables(), nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(variables)) << variables;
  EXPECT_THAT(std::string(variables.message()), StartsWith("the model has 10001 variables"));
}

TEST(RunPlanTest, ARunOfOneProcessNeedsNoMessage) {
  v1::ModelDeclaration model = Model();
  v1::RunConfig run = RunOfManySlices(&model);
  run.mutable_deployment()->set_num_ps_tasks(0);
  EXPECT_TRUE(PlanRun(run, 1, model, nullptr).ok());
  EXPECT_TRUE(PlanRun(run, 1, ModelOfManyVariables(), nullptr).ok());
  const v1::Manifest manifest = ManifestOf(run, model);
  EXPECT_TRUE(PlanRun(run, 1, model, &manifest).ok());
  // Its checkpoint is cut as it is.
  run.mutable_deployment()->set_num_ps_tasks(2);
  const absl::Status more = PlanRun(run, 2, model, &manifest).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(more)) << more;
  EXPECT_THAT(
      std::string(more.message()),
      EndsWith("resume with --num_ps_tasks=0 --num_replicas=1, or start a new run with a larger "
               "cluster.slice_bytes and another --out"));
}

TEST(RunPlanTest, AResumeWithTheSameThingsIsPlanned) {
  const v1::Manifest manifest = ManifestOf(AdamRun(), Model());
  EXPECT_TRUE(PlanRun(AdamRun(), 3, Model(), &manifest).ok());
}

TEST(RunPlanTest, AResumeOnOtherDataOfTheSameSizeIsRefused) {
  v1::ModelDeclaration model = Model();
  model.set_data_fingerprint(8);
  v1::RunConfig run = AdamRun();
  run.set_out("/runs/a");
  EXPECT_THAT(ResumeError(run, model),
              StartsWith("data has other content than when the checkpoint was made; use the same "
                         "data, or train further on this with --init_state --init_from=/runs/a and "
                         "another --out, or anew with another --out"));
  run.set_seed(4);
  EXPECT_THAT(ResumeError(run, model),
              StartsWith("seed is 4 (was 1), and data has other content than when the checkpoint "
                         "was made, as synthetic data has with another seed; use --seed=1 and the "
                         "same data, or train further on this with --init_state --init_from="));
}

TEST(RunPlanTest, AResumeWithAnotherOptimizerIsRefusedWhateverItsSlots) {
  v1::RunConfig run = AdamRun();
  run.mutable_optimizer()->mutable_sgd();
  EXPECT_THAT(ResumeError(run, Model()), HasSubstr("optimizer is sgd and the checkpoint has the "
                                                   "state of adam; use --optimizer=adam, or "
                                                   "another --out"));
  run.mutable_optimizer()->mutable_adamw();
  EXPECT_THAT(ResumeError(run, Model()), HasSubstr("optimizer is adamw"));
}

TEST(RunPlanTest, AWorkerWithOtherDataOfTheSameSizeIsRefused) {
  v1::ModelDeclaration other = Model();
  EXPECT_TRUE(CheckSameModel(Model(), other).ok());
  other.set_data_fingerprint(8);
  EXPECT_THAT(std::string(CheckSameModel(Model(), other).message()),
              StartsWith("data has other content here"));
}

TEST(RunPlanTest, MetricsHaveNamesThatNothingElseHas) {
  bool classifies = false;
  const auto error_of = [&classifies](const std::vector<std::string>& names) {
    v1::ModelDeclaration model = Model();
    model.set_classifies(classifies);
    for (const std::string& name : names) model.add_metrics()->set_name(name);
    return std::string(PlanRun(AdamRun(), 1, model, nullptr).status().message());
  };
  EXPECT_EQ(error_of({"f1", "auc"}), "");
  EXPECT_THAT(error_of({"f1", "f1"}), HasSubstr("metric \"f1\": another metric has this name"));
  EXPECT_EQ(error_of({"accuracy"}), "");
  classifies = true;
  EXPECT_THAT(error_of({"accuracy"}), HasSubstr("metric \"accuracy\": another metric"));
  EXPECT_THAT(error_of({"loss"}), HasSubstr("metric \"loss\": metrics.jsonl has a field"));
  EXPECT_THAT(error_of({"f\n1"}), HasSubstr("1 to 64 of A-Z"));
  EXPECT_THAT(error_of(std::vector<std::string>(17, "f")), HasSubstr("17 metrics"));
}

TEST(RunPlanTest, AllWorkersHaveTheSameMetrics) {
  v1::ModelDeclaration first = Model();
  first.add_metrics()->set_name("auc");
  v1::ModelDeclaration other = first;
  EXPECT_TRUE(CheckSameModel(first, other).ok());
  other.mutable_metrics(0)->set_kind(v1::METRIC_KIND_AUC);
  EXPECT_THAT(std::string(CheckSameModel(first, other).message()),
              HasSubstr("metrics are [auc (auc)] here and [auc] at the first worker"));
}

TEST(RunPlanTest, ARunWithTablesHasAtMostTheUpdatesThatARowCanCount) {
  v1::ModelDeclaration model = Model();
  v1::RunConfig run = AdamRun();
  run.set_num_epochs(0);
  run.set_max_steps(4294967295);
  EXPECT_TRUE(PlanRun(run, 1, model, nullptr).ok()) << "the run has no table";
  model.mutable_variables(0)->mutable_table()->set_buckets(16);
  const absl::Status refused = PlanRun(run, 1, model, nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              StartsWith("max_steps: the run ends at update 4294967295, and a table can have at "
                         "most 3221225470; set max_steps to at most that"));
  run.set_max_steps(3221225470);
  EXPECT_TRUE(PlanRun(run, 1, model, nullptr).ok());
}

}  // namespace
}  // namespace shoal
