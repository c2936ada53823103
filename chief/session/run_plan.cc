#include "chief/session/run_plan.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "runtime/config/optimizer_groups.h"
#include "runtime/config/run_config.h"
#include "runtime/config/trained_tables.h"
#include "runtime/plan/placement.h"
#include "runtime/rpc/channel.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/variables/metric_sums.h"

namespace shoal {
namespace {

constexpr char kSameModel[] = "; give both the same model";

std::string DescribeShape(const v1::VariableSpec& variable) {
  return absl::StrCat("[", absl::StrJoin(variable.shape(), ","), "]");
}

// The text of a rule without its learning rate and schedule, which a run may change when it
// resumes.
std::string DescribeRule(const v1::TableSpec& table) {
  v1::OptimizerConfig rule = table.optimizer();
  rule.clear_learning_rate();
  rule.clear_schedule();
  return absl::StrCat(table.rowwise() ? "rowwise " : "",
                      table.has_optimizer() ? rule.ShortDebugString() : "that of the run");
}

// Returns "uniform" for KIND_UNIFORM, as run files name it.
std::string DescribeKind(v1::Initializer::Kind kind) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::Initializer::Kind_Name(kind), "KIND_"));
}

// A setting of a variable, as a run file names it, and its value.
struct Setting {
  std::string name;
  std::string value;
};

std::vector<Setting> ListSettings(const v1::VariableSpec& variable) {
  const v1::Initializer& initializer = variable.initializer();
  std::vector<Setting> settings = {
      {"kind", variable.has_table() ? "a table" : "a dense variable"},
      {"initializer", absl::StrCat(DescribeKind(initializer.kind()), "(", initializer.a(), ", ",
                                   initializer.b(), ")")},
      {"type", v1::DataType_Name(variable.dtype())},
      {"trainable", variable.trainable() ? "true" : "false"},
      {"update",
       absl::StrCat(v1::UpdateKind_Name(variable.update()), " with decay ", variable.decay())}};
  if (!variable.has_table()) return settings;
  const v1::TableSpec& table = variable.table();
  settings.push_back({"buckets", absl::StrCat(table.buckets())});
  settings.push_back({"optimizer", DescribeRule(table)});
  settings.push_back({"optimizer.l2", absl::StrCat(table.l2())});
  settings.push_back({"admission.min_count", absl::StrCat(table.min_count())});
  settings.push_back({"expiry.idle_updates", absl::StrCat(table.idle_updates())});
  return settings;
}

// "variable dense/weights" or "table user"
std::string NameOf(const v1::VariableSpec& variable) {
  return absl::StrCat(variable.has_table() ? "table " : "variable ", variable.name());
}

// Returns the first setting in which the two differ, with both values; "" if there is none.
std::string FirstDifference(const v1::VariableSpec& first, const v1::VariableSpec& other,
                            const char* first_is, const char* other_is) {
  const std::vector<Setting> ours = ListSettings(first), theirs = ListSettings(other);
  for (size_t s = 0; s < std::min(ours.size(), theirs.size()); ++s) {
    if (ours[s].value == theirs[s].value) continue;
    return absl::StrFormat("%s: %s is %s in %s and %s in %s%s", NameOf(first), ours[s].name,
                           ours[s].value, first_is, theirs[s].value, other_is, kSameModel);
  }
  return "";
}

bool IsFrozen(const v1::VariableSpec& variable) {
  return variable.update() == v1::UPDATE_KIND_NONE;
}

absl::Status CheckSameVariables(absl::Span<const v1::VariableSpec* const> first,
                                absl::Span<const v1::VariableSpec* const> other,
                                const char* first_is, const char* other_is) {
  const size_t n = std::min(first.size(), other.size());
  for (size_t i = 0; i < n; ++i) {
    if (first[i]->name() != other[i]->name()) {
      return absl::FailedPreconditionError(absl::StrFormat("variable %d is %s in %s and %s in %s%s",
                                                           i, first[i]->name(), first_is,
                                                           other[i]->name(), other_is, kSameModel));
    }
    if (DescribeShape(*first[i]) != DescribeShape(*other[i])) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s has shape %s in %s and %s in %s%s", NameOf(*first[i]), DescribeShape(*first[i]),
          first_is, DescribeShape(*other[i]), other_is, kSameModel));
    }
    if (IsFrozen(*first[i]) != IsFrozen(*other[i])) {
      const char* first_does = IsFrozen(*first[i]) ? "frozen" : "trained";
      const char* other_does = IsFrozen(*other[i]) ? "frozen" : "trained";
      return absl::FailedPreconditionError(absl::StrFormat("variable %s is %s in %s and %s in %s%s",
                                                           first[i]->name(), first_does, first_is,
                                                           other_does, other_is, kSameModel));
    }
    const std::string difference = FirstDifference(*first[i], *other[i], first_is, other_is);
    if (!difference.empty()) return absl::FailedPreconditionError(difference);
  }
  if (first.size() != other.size()) {
    return absl::FailedPreconditionError(absl::StrFormat("%s has %d variables and %s has %d%s",
                                                         first_is, first.size(), other_is,
                                                         other.size(), kSameModel));
  }
  return absl::OkStatus();
}

template <typename Variables>
std::vector<const v1::VariableSpec*> Pointers(const Variables& variables) {
  std::vector<const v1::VariableSpec*> pointers;
  for (const v1::VariableSpec& variable : variables) pointers.push_back(&variable);
  return pointers;
}

std::string JoinNames(const v1::ModelDeclaration& model) {
  return absl::StrJoin(model.metrics(), ",", [](std::string* text, const v1::MetricSpec& metric) {
    absl::StrAppend(text, metric.name(), metric.kind() == v1::METRIC_KIND_AUC ? " (auc)" : "");
  });
}

absl::Status CheckMetrics(const v1::ModelDeclaration& model) {
  if (static_cast<size_t>(model.metrics_size()) > kMostMetrics) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the model has %d metrics beside the loss; at most %d are "
                        "possible: leave some out",
                        model.metrics_size(), kMostMetrics));
  }
  std::set<std::string> names;
  if (model.classifies()) names.insert("accuracy");
  for (const v1::MetricSpec& metric : model.metrics()) {
    absl::Status status = CheckMetricName(metric.name());
    if (status.ok() && !names.insert(metric.name()).second) {
      status = absl::InvalidArgumentError("another metric has this name; rename one of them");
    }
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("metric \"", metric.name(), "\": ", status.message()));
  }
  return absl::OkStatus();
}

// Returns the flags of a new run that takes what it can of the tables of the checkpoint, whose
// settings the model changes; "" if it changes none, or the length of the rows.
std::string FlagsToTakeTables(const v1::RunConfig& run, const v1::ModelDeclaration& model,
                              const v1::Manifest& manifest) {
  bool changes = false, changes_rule = false;
  for (const v1::VariableSpec& saved : manifest.variables()) {
    for (const v1::VariableSpec& variable : model.variables()) {
      if (saved.name() != variable.name()) continue;
      if (DescribeShape(saved) != DescribeShape(variable)) return "";
      if (!saved.has_table() || !variable.has_table()) continue;
      changes_rule |= DescribeRule(saved.table()) != DescribeRule(variable.table());
      changes |= !FirstDifference(saved, variable, "", "").empty();
    }
  }
  if (!changes) return "";
  const std::string from = absl::StrCat("--init_from=", run.out());
  return changes_rule
             ? absl::StrCat(from, ", which keeps the values of its rows")
             : absl::StrCat("--init_state ", from, ", which keep its rows, slots and counts");
}

absl::Status CheckSavedModel(const v1::RunConfig& run, const v1::ModelDeclaration& model,
                             const v1::Manifest& manifest) {
  const absl::Status status = CheckSameVariables(
      Pointers(manifest.variables()), Pointers(model.variables()), "the checkpoint", "the model");
  if (status.ok()) return status;
  const std::string flags = FlagsToTakeTables(run, model, manifest);
  return absl::FailedPreconditionError(absl::StrCat(
      "--out: ", run.out(), " has the checkpoint of step ", manifest.step(), " of another model: ",
      absl::StripSuffix(status.message(), kSameModel), "; train that model, or give this model ",
      flags, flags.empty() ? "" : ", and ", "another --out"));
}

absl::Status CheckSameOptimizer(const v1::RunConfig& run, const v1::Manifest& manifest) {
  const std::string optimizer = OptimizerName(run.optimizer());
  if (manifest.optimizer() != optimizer) {
    return absl::FailedPreconditionError(
        absl::StrFormat("optimizer is %s and the checkpoint has the state of %s; use "
                        "--optimizer=%s, or another --out",
                        optimizer, manifest.optimizer(), manifest.optimizer()));
  }
  return absl::OkStatus();
}

absl::Status CheckComputeType(const v1::RunConfig& run, bool is_epoch_start,
                              const v1::Manifest& manifest) {
  const bool was_bfloat16 = manifest.compute_dtype() == "bfloat16";
  const bool is_bfloat16 = ComputesInBfloat16(run);
  if (was_bfloat16 == is_bfloat16 || is_epoch_start) return absl::OkStatus();
  const auto name = [](bool bfloat16) { return bfloat16 ? "bfloat16" : "float32"; };
  return absl::FailedPreconditionError(
      absl::StrFormat("compute_dtype is %s (was %s), but the checkpoint is in the middle of an "
                      "epoch, where it cannot change; use --compute_dtype=%s",
                      name(is_bfloat16), name(was_bfloat16), name(was_bfloat16)));
}

// The rows that a checkpoint does not store follow from the seed.
absl::Status CheckSeedOfTables(const v1::RunConfig& run, const v1::ModelDeclaration& model,
                               const v1::Manifest& manifest) {
  const bool has_tables = std::any_of(model.variables().begin(), model.variables().end(),
                                      [](const auto& variable) { return variable.has_table(); });
  if (!has_tables || run.seed() == manifest.seed()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "seed is %d (was %d), but the run has tables, whose rows have initial values that follow "
      "from the seed; use --seed=%d, or the other seed in a new run with --init_from=%s and "
      "another --out",
      run.seed(), manifest.seed(), manifest.seed(), run.out()));
}

absl::StatusOr<StepPlan> PlanSteps(const v1::RunConfig& run, const v1::ModelDeclaration& model,
                                   const v1::Manifest* manifest) {
  StepPlan::Options options;
  options.examples_per_epoch = model.train_examples();
  options.batch_examples = ReplicaBatchExamples(run);
  options.replicas_to_aggregate = ReplicasToAggregate(run, manifest);
  if (manifest == nullptr) return StepPlan::Create(options);

  ASSIGN_OR_RETURN(StepPlan before, StepPlan::FromProto(manifest->plan()));
  const StepPlan::Options& old = before.options();
  const uint64_t seed = run.seed();
  if (seed != manifest->seed() && !before.IsEpochStart(manifest->step())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("seed is %d (was %d), but the checkpoint is in the middle of an epoch, "
                        "where it cannot change; use --seed=%d",
                        seed, manifest->seed(), manifest->seed()));
  }
  RETURN_IF_ERROR(CheckComputeType(run, before.IsEpochStart(manifest->step()), *manifest));
  if (old.batch_examples == options.batch_examples &&
      old.replicas_to_aggregate == options.replicas_to_aggregate) {
    return before;
  }
  if (!before.IsEpochStart(manifest->step())) {
    std::vector<std::string> changed;
    if (old.batch_examples != options.batch_examples) {
      changed.push_back(absl::StrFormat("batch_size x num_clones is %d (was %d)",
                                        options.batch_examples, old.batch_examples));
    }
    if (old.replicas_to_aggregate != options.replicas_to_aggregate) {
      changed.push_back(absl::StrFormat("replicas_to_aggregate is %d (was %d)",
                                        options.replicas_to_aggregate, old.replicas_to_aggregate));
    }
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s, but the checkpoint is in the middle of an epoch, where this cannot change; use the "
        "old value, or finish the epoch with it first: --num_epochs=%d",
        absl::StrJoin(changed, " and "), before.At(manifest->step()).epoch + 1));
  }
  options.base_step = manifest->step();
  options.base_epoch = before.At(manifest->step()).epoch;
  return StepPlan::Create(options);
}

// Checks that no message becomes too large. One message to every ps contains the run, its variables
// and the owner of each slice; the state for every task also contains the variables and the owners.
// In a run of one process no message is sent.
absl::Status CheckFitsAMessage(const v1::RunConfig& run,
                               const std::vector<v1::VariableSpec>& variables,
                               const v1::ShardMap& shard_map, bool resumes) {
  if (NumPsProcesses(run) == 0) return absl::OkStatus();
  uint64_t declared = run.ByteSizeLong();
  for (const v1::VariableSpec& variable : variables) declared += variable.ByteSizeLong() + 4;
  const uint64_t bytes = declared + shard_map.ByteSizeLong();
  if (bytes <= kMaxPlanBytes) return absl::OkStatus();
  if (declared > kMaxPlanBytes / 2) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the model has %d variables; their names and shapes and the run file take "
                        "%d bytes of a message that holds %d: use fewer variables or shorter names",
                        variables.size(), declared, kMaxPlanBytes));
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "cluster.slice_bytes is %d, which cuts the model into %d slices; the list of their owners "
      "does not fit a message: %s",
      shard_map.slice_bytes(), shard_map.owner_size(),
      resumes
          ? "the checkpoint has these slices; resume with --num_ps_tasks=0 --num_replicas=1, or "
            "start a new run with a larger cluster.slice_bytes and another --out"
          : "raise cluster.slice_bytes"));
}

}  // namespace

uint32_t ReplicasToAggregate(const v1::RunConfig& run, const v1::Manifest* manifest) {
  if (!IsSynchronous(run)) return 1;
  if (run.sync().replicas_to_aggregate() > 0) return run.sync().replicas_to_aggregate();
  if (manifest != nullptr) return manifest->plan().replicas_to_aggregate();
  return run.deployment().num_replicas();
}

absl::StatusOr<std::unique_ptr<RunPlan>> PlanRun(const v1::RunConfig& run, uint32_t num_ps_tasks,
                                                 const v1::ModelDeclaration& model,
                                                 const v1::Manifest* manifest) {
  uint64_t slice_bytes = SliceBytes(run);
  if (manifest != nullptr) {
    RETURN_IF_ERROR(CheckSameAsCheckpoint(run, model, *manifest));
    RETURN_IF_ERROR(CheckSameOptimizer(run, *manifest));
    if (run.cluster().slice_bytes() > 0 &&
        run.cluster().slice_bytes() != manifest->shard_map().slice_bytes()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "cluster.slice_bytes is %d and the checkpoint was made with %d; leave it out to resume",
          run.cluster().slice_bytes(), manifest->shard_map().slice_bytes()));
    }
    slice_bytes = manifest->shard_map().slice_bytes();
  }
  std::vector<v1::VariableSpec> variables(model.variables().begin(), model.variables().end());
  if (variables.empty())
    return absl::InvalidArgumentError("the model has no variables; there is nothing to train");
  RETURN_IF_ERROR(CheckMetrics(model));
  ASSIGN_OR_RETURN(const OptimizerGroups groups, OptimizerGroups::Create(run.optimizer()));
  RETURN_IF_ERROR(CheckTablesAreTrained(run, variables));
  RETURN_IF_ERROR(groups.CheckAllAreUsed(variables));
  ASSIGN_OR_RETURN(SliceTable table, SliceTable::Create(variables, slice_bytes));
  ASSIGN_OR_RETURN(StepPlan steps, PlanSteps(run, model, manifest));

  std::optional<uint32_t> other_batches_from;
  if (manifest != nullptr &&
      (run.seed() != manifest->seed() ||
       steps.options().batch_examples != manifest->plan().batch_examples())) {
    other_batches_from = steps.At(manifest->step()).epoch;
  }

  v1::ShardMap shard_map;
  shard_map.set_num_ps_tasks(num_ps_tasks);
  shard_map.set_slice_bytes(slice_bytes);
  for (uint32_t owner :
       PlaceSlices(table, num_ps_tasks,
                   run.cluster().round_robin() ? PlacementStrategy::kRoundRobin
                                               : PlacementStrategy::kGreedyByBytes)) {
    shard_map.add_owner(owner);
  }
  RETURN_IF_ERROR(CheckFitsAMessage(run, variables, shard_map, manifest != nullptr));
  const uint64_t last_step = steps.LastStep(run.max_steps(), run.num_epochs());
  if (table.has_tables() && last_step > kMostTableUpdates) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "max_steps: the run ends at update %d, and a table can have at most %d; set max_steps to "
        "at most that, and train further in a new run with --init_state --init_from=DIRECTORY of "
        "this run",
        last_step, kMostTableUpdates));
  }
  return std::make_unique<RunPlan>(RunPlan{
      std::move(variables), std::move(table), std::move(shard_map), steps, last_step,
      VersionSchedule{run.checkpoint().save_every(), last_step},
      VersionSchedule{run.eval_every(), last_step}, model.evaluation_blocks(), other_batches_from});
}

absl::Status CheckSameAsCheckpoint(const v1::RunConfig& run, const v1::ModelDeclaration& model,
                                   const v1::Manifest& manifest) {
  RETURN_IF_ERROR(CheckSavedModel(run, model, manifest));
  RETURN_IF_ERROR(CheckSeedOfTables(run, model, manifest));
  if (manifest.data_fingerprint() != model.data_fingerprint()) {
    const std::string what =
        run.seed() == manifest.seed()
            ? "data has other content than when the checkpoint was made; use the same data"
            : absl::StrFormat(
                  "seed is %d (was %d), and data has other content than when the checkpoint was "
                  "made, as synthetic data has with another seed; use --seed=%d and the same data",
                  run.seed(), manifest.seed(), manifest.seed());
    return absl::FailedPreconditionError(
        absl::StrCat(what, ", or train further on this with --init_state --init_from=", run.out(),
                     " and another --out, or anew with another --out"));
  }
  if (manifest.plan().examples_per_epoch() != model.train_examples()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("data has %d examples and the checkpoint was made with %d; use the "
                        "same data or another --out",
                        model.train_examples(), manifest.plan().examples_per_epoch()));
  }
  return absl::OkStatus();
}

absl::Status CheckSameModel(const v1::ModelDeclaration& first, const v1::ModelDeclaration& other) {
  RETURN_IF_ERROR(CheckSameVariables(Pointers(first.variables()), Pointers(other.variables()),
                                     "the first worker", "this worker"));
  if (first.train_examples() != other.train_examples() ||
      first.test_examples() != other.test_examples() ||
      first.evaluation_blocks() != other.evaluation_blocks()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("data has %d train and %d test examples here, %d and %d at the first "
                        "worker; give all workers the same data",
                        other.train_examples(), other.test_examples(), first.train_examples(),
                        first.test_examples()));
  }
  if (first.data_fingerprint() != other.data_fingerprint()) {
    return absl::FailedPreconditionError(
        "data has other content here than at the first worker; give all workers the same data");
  }
  if (JoinNames(first) != JoinNames(other)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("metrics are [%s] here and [%s] at the first worker%s", JoinNames(other),
                        JoinNames(first), kSameModel));
  }
  return absl::OkStatus();
}

uint64_t ModelFingerprint(const std::vector<v1::VariableSpec>& variables) {
  std::string all;
  for (const v1::VariableSpec& variable : variables)
    absl::StrAppend(&all, variable.SerializeAsString(), ";");
  return Fingerprint64(all);
}

}  // namespace shoal
