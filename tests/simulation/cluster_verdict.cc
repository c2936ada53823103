// The verdict on a run of cluster_simulation.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/rpc/chief_session.h"
#include "runtime/variables/metric_sums.h"
#include "runtime/variables/score_histogram.h"
#include "tests/simulation/cluster_simulation.h"

namespace shoal {
namespace {

// The longest pauses of the chief, in seconds, in which no task gives it up: a task waits a little
// longer, and may have begun to wait before the pause.
double PatienceWithChief() {
  return absl::ToDoubleSeconds(ChiefSession::Options().chief_lost_after) - 5;
}

absl::StatusOr<std::vector<float>> ReadTensor(Checkpoint& checkpoint, uint32_t slice,
                                              const std::string& slot, size_t size) {
  std::vector<float> values(size);
  const absl::Status status = checkpoint.Read(slice, slot, 0, absl::MakeSpan(values));
  if (!status.ok()) return status;
  return values;
}

// A task that is lost when the last fault ends is noticed within a lease, and the run ends when a
// ps has not come back in time. Other waits are longer: one that lasts until its deadline without
// a fault has no cause.
double FailurePatience(const v1::ClusterOptions& cluster) {
  return cluster.lease_seconds() + cluster.ps_return_seconds();
}

// A worker that died with a part of the evaluation may have died on a batch of the next steps that
// is skipped: then no worker that computes those steps evaluates the part.
bool MayLackEvaluation(const StepPlan& plan, uint64_t version, const std::set<BatchKey>& skipped) {
  return std::any_of(skipped.begin(), skipped.end(), [&](const BatchKey& batch) {
    const uint64_t step = plan.FindPlace(batch).step;
    return version <= step && step <= version + 1;
  });
}

// Returns the metrics of all blocks, the AUC by its definition: from all pairs of a positive and a
// negative example.
MetricValues EvaluatedMetrics(const SequentialRun& run, uint64_t num_blocks) {
  double sum = 0, weight = 0;
  std::vector<ScoreCount> scores;
  for (uint64_t block = 0; block < num_blocks; ++block) {
    const MetricSums metrics = SimulatedModel::EvaluationMetrics(run.HashForBlock(block), block);
    sum += metrics[0].sum;
    weight += metrics[0].weight;
    scores.insert(scores.end(), metrics[1].histogram.begin(), metrics[1].histogram.end());
  }
  double ordered = 0, pairs = 0;
  for (const ScoreCount& high : scores) {
    for (const ScoreCount& low : scores) {
      const double both = double{1} * high.positives * low.negatives;
      ordered += low.bin < high.bin ? both : low.bin == high.bin ? both / 2 : 0;
      pairs += both;
    }
  }
  return {{"auc", ordered / pairs}, {"mean", sum / weight}};
}

}  // namespace

std::string ClusterSimulation::Judge() {
  HistoryRules rules;
  // A schedule in steps can be kept only while steps flow; the patience is that of retries and of
  // one rewrite of a shard.
  rules.save_every = run_.run.checkpoint().save_every();
  rules.patience = 20;
  for (const PlannedFault& fault : plan_.faults) {
    // Or that of a load whose request was lost: it is sent again after kLoadTimeout.
    if (fault.kind == PlannedFault::kLoss) {
      rules.patience = 40;
    }
  }
  // A chief that stood still gives everybody a lease before it judges them.
  // A forged term is not believed.
  double paused = 0;
  bool are_harmless = !plan_.faults.empty() && run_.deadly.empty() && run_.flaky.empty();
  for (const PlannedFault& fault : plan_.faults) {
    are_harmless = are_harmless && (fault.kind == PlannedFault::kPauseChief ||
                                    fault.kind == PlannedFault::kForgedTerm);
    paused += fault.seconds;
  }
  rules.failure_patience = FailurePatience(run_.run.cluster());
  rules.places_are_safe = are_harmless && paused < PatienceWithChief();
  const std::string broken = history_.Check(rules);
  if (!broken.empty()) return broken;
  const auto directory = CheckpointDirectory::Open(disks_.files, "/run/checkpoints");
  if (!directory.ok()) return directory.status().ToString();
  std::vector<std::string> rejected;
  const auto checkpoint = (*directory)->OpenLatestValid(Checkpoint::Verify::kEverything, &rejected);
  if (!checkpoint.ok()) {
    return absl::StrCat("the run ends without a checkpoint: ", checkpoint.status().ToString());
  }
  const v1::Manifest& manifest = (*checkpoint)->manifest();
  if (!manifest.finished()) {
    return absl::StrCat("the last checkpoint, of step ", manifest.step(), ", is not of the end");
  }
  std::set<BatchKey> skipped;
  v1::DataLedgerState ledger;
  ledger.ParseFromString(manifest.ledger());
  for (const auto* list : {&manifest.skipped(), &ledger.skipped()}) {
    for (const v1::SkippedBatch& skip : *list) {
      const BatchKey batch = ToBatchKey(skip.batch());
      if (run_.non_finite.count(batch) + run_.deadly.count(batch) + run_.flaky.count(batch) == 0) {
        return absl::StrCat("batch ", batch.index, " was skipped without reason");
      }
      skipped.insert(batch);
    }
  }
  counts_.steps = manifest.step();
  counts_.skipped = skipped.size();
  return run_.synchronous ? JudgeSync(**checkpoint, skipped) : JudgeAsync(**checkpoint, skipped);
}

std::string ClusterSimulation::JudgeSync(Checkpoint& checkpoint,
                                         const std::set<BatchKey>& skipped) {
  const absl::StatusOr<StepPlan> plan = StepPlan::FromProto(checkpoint.manifest().plan());
  if (!plan.ok()) return plan.status().ToString();
  // The lines that stand, by step.
  std::map<uint64_t, StepMetrics> lines;
  const absl::StatusOr<std::string> text = ReadFile(disks_.files, "/run/metrics.jsonl");
  if (!text.ok()) return text.status().ToString();
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<StepMetrics> metrics = ParseMetricsLine(line);
    if (!metrics.ok()) return absl::StrCat("metrics.jsonl: ", metrics.status().ToString());
    if (!lines.empty() && metrics->step != lines.rbegin()->first + 1) {
      return absl::StrCat("line ", metrics->step, " follows line ", lines.rbegin()->first);
    }
    lines[metrics->step] = *metrics;
  }
  const VersionSchedule evaluations{run_.run.eval_every(), checkpoint.manifest().step()};
  SequentialRun sequential(model_, run_.run, *plan, TrainPlanOf(run_), skipped);
  while (sequential.version() < checkpoint.manifest().step()) {
    const SequentialRun::StepSums sums = sequential.Step();
    const auto line = lines.find(sequential.version());
    if (line == lines.end()) return absl::StrCat("step ", sequential.version(), " has no line");
    const double loss = sums.examples == 0 ? 0
                                           : sums.loss_sum / static_cast<double>(sums.examples) +
                                                 sums.regularization;
    if (line->second.examples != sums.examples ||
        (sums.examples > 0 && line->second.loss != loss)) {
      return absl::StrCat("line ", sequential.version(), ": loss ", line->second.loss, " over ",
                          line->second.examples, " instead of ", loss, " over ", sums.examples);
    }
    const std::optional<double> mean =
        sums.metric_weight > 0 ? std::make_optional(sums.metric_sum / sums.metric_weight)
                               : std::nullopt;
    if (line->second.named != MetricValues{{"auc", std::nullopt}, {"mean", mean}}) {
      return absl::StrCat("line ", sequential.version(), ": wrong metrics");
    }
    if (!line->second.eval_loss.has_value()) {
      if (run_.evaluation_blocks == 0 || !evaluations.Contains(*plan, sequential.version())) {
        continue;
      }
      if (MayLackEvaluation(*plan, sequential.version(), skipped)) continue;
      if (counts_.slow_stops.count(sequential.version()) > 0) continue;
      // No worker was left to evaluate it.
      if (counts_.step_without_workers.has_value() &&
          sequential.version() <= counts_.last_checkpoint) {
        continue;
      }
      return absl::StrCat("line ", sequential.version(), " has no evaluation");
    }
    double evaluated = 0;
    for (uint64_t block = 0; block < run_.evaluation_blocks; ++block) {
      evaluated += SimulatedModel::EvaluationLoss(sequential.HashForBlock(block), block);
    }
    evaluated /= static_cast<double>(run_.evaluation_blocks);
    if (*line->second.eval_loss != evaluated) {
      return absl::StrCat("step ", sequential.version(), ": wrong evaluation");
    }
    if (line->second.eval_named != EvaluatedMetrics(sequential, run_.evaluation_blocks)) {
      return absl::StrCat("step ", sequential.version(), ": wrong metrics of the evaluation");
    }
  }
  if (lines.size() != sequential.version()) {
    return absl::StrCat(lines.size(), " lines for ", sequential.version(), " steps");
  }
  for (uint32_t slice = 0; slice < model_.table().size(); ++slice) {
    if (model_.table()[slice].is_bucket) {
      const absl::StatusOr<BucketRows> rows = ReadBucket(checkpoint, slice);
      if (!rows.ok()) return rows.status().ToString();
      const std::string wrong =
          sequential.tables().Compare(slice, checkpoint.state(slice).version, *rows);
      if (!wrong.empty()) return absl::StrCat("bucket ", slice, ": ", wrong);
      continue;
    }
    const size_t size = model_.table()[slice].num_elements;
    const auto value = ReadTensor(checkpoint, slice, "", size);
    if (!value.ok()) return value.status().ToString();
    if (*value != sequential.values()[slice]) {
      return absl::StrCat("slice ", slice, ": the value differs from the sequential run's");
    }
    const std::vector<float>& slots = sequential.slots()[slice];
    const size_t stride = (size + 15) / 16 * 16;
    const std::vector<std::string> names =
        run_.run.optimizer().has_adam()       ? std::vector<std::string>{"m", "v"}
        : run_.run.optimizer().has_momentum() ? std::vector<std::string>{"momentum"}
                                              : std::vector<std::string>();
    for (size_t k = 0; k < names.size() && k * stride < slots.size(); ++k) {
      const auto slot = ReadTensor(checkpoint, slice, names[k], size);
      if (!slot.ok()) return slot.status().ToString();
      if (!std::equal(slot->begin(), slot->end(),
                      slots.begin() + static_cast<ptrdiff_t>(k * stride))) {
        return absl::StrCat("slice ", slice, ": slot ", names[k],
                            " differs from the sequential run's");
      }
    }
  }
  return "";
}

absl::StatusOr<BucketRows> ClusterSimulation::ReadBucket(Checkpoint& checkpoint, uint32_t slice) {
  const v1::VariableSpec& spec = model_.variables()[model_.table()[slice].variable];
  const TableLedger ledger(&model_.tables(), &model_.table(), model_.first_table(), run_.run);
  const std::vector<std::string> slots =
      ledger.slot_names(model_.table()[slice].variable - model_.first_table());
  absl::StatusOr<BucketRows> rows = checkpoint.ReadBucket(slice, MakeRowSlots(spec, slots));
  if (!rows.ok()) return rows;
  counts_.rows += rows->keys.size();
  counts_.counted_keys += rows->counted_keys.size();
  counts_.is_delta = !checkpoint.bases().empty();
  return rows;
}

std::string ClusterSimulation::JudgeBucketAsync(Checkpoint& checkpoint, uint32_t slice,
                                                const std::vector<BatchKey>& counted,
                                                const std::vector<BatchKey>& perhaps) {
  const absl::StatusOr<BucketRows> rows = ReadBucket(checkpoint, slice);
  if (!rows.ok()) return rows.status().ToString();
  const uint32_t variable = model_.table()[slice].variable;
  const size_t table = variable - model_.first_table();
  const BatchPlan batches = TrainPlanOf(run_);
  const auto keys_of = [&](const BatchKey& batch) {
    std::set<uint64_t> keys;
    if (!model_.tables().is_trained(table)) return keys;
    const TouchedKeys touched_keys = model_.tables().KeysOfBatch(batches, batch);
    for (const uint64_t key : touched_keys[table]) {
      if (model_.table().BucketOf(variable, key) == slice) keys.insert(key);
    }
    return keys;
  };
  std::map<BatchKey, std::set<uint64_t>> touched;
  for (const BatchKey& batch : counted) touched[batch] = keys_of(batch);
  std::string wrong;
  for (uint64_t subset = 0; subset < uint64_t{1} << std::min<size_t>(perhaps.size(), 12);
       ++subset) {
    auto with_subset = touched;
    for (size_t k = 0; k < perhaps.size(); ++k) {
      if ((subset >> k & 1) != 0) with_subset[perhaps[k]] = keys_of(perhaps[k]);
    }
    const uint64_t version = checkpoint.state(slice).version;
    std::string why =
        version == with_subset.size()
            ? CheckCountedRows(model_.variables()[variable], with_subset, version, *rows)
            : absl::StrCat(version, " updates instead of ", with_subset.size());
    if (why.empty()) return "";
    if (wrong.empty()) wrong = std::move(why);
  }
  return absl::StrCat("bucket ", slice, ": ", wrong);
}

std::string ClusterSimulation::JudgeAsync(Checkpoint& checkpoint,
                                          const std::set<BatchKey>& skipped) {
  v1::DataLedgerState ledger;
  ledger.ParseFromString(checkpoint.manifest().ledger());
  const BatchKey next = ToBatchKey(ledger.next());
  if (run_.run.max_steps() == 0 && next.epoch < run_.run.num_epochs()) {
    return "the run ends too early";
  }
  const uint64_t batch_size = run_.run.batch_size();
  const uint64_t batches = (run_.train_examples + batch_size - 1) / batch_size;
  // All batches before `next`, but perhaps not those that were skipped: the rest tells.
  std::vector<BatchKey> counted, perhaps;
  for (uint32_t epoch = 0; epoch < run_.run.num_epochs(); ++epoch) {
    for (uint64_t index = 0; index < batches; ++index) {
      const BatchKey batch{epoch, index};
      if (batch < next) (skipped.count(batch) > 0 ? perhaps : counted).push_back(batch);
    }
  }
  for (uint32_t slice = 0; slice < model_.table().size(); ++slice) {
    if (model_.table()[slice].is_bucket) {
      std::string wrong = JudgeBucketAsync(checkpoint, slice, counted, perhaps);
      if (!wrong.empty()) return wrong;
      continue;
    }
    const size_t size = model_.table()[slice].num_elements;
    const auto value = ReadTensor(checkpoint, slice, "", size);
    if (!value.ok()) return value.status().ToString();
    std::vector<float> rest(*value);
    for (const BatchKey& batch : counted) {
      for (size_t i = 0; i < size; ++i) {
        rest[i] += SimulatedModel::CountedContribution(batch, slice, i);
      }
    }
    bool fits = false;
    for (uint64_t subset = 0; subset < uint64_t{1} << std::min<size_t>(perhaps.size(), 12) && !fits;
         ++subset) {
      fits = true;
      for (size_t i = 0; i < size && fits; ++i) {
        float sum = rest[i];
        for (size_t k = 0; k < perhaps.size(); ++k) {
          if ((subset >> k & 1) != 0) {
            sum += SimulatedModel::CountedContribution(perhaps[k], slice, i);
          }
        }
        fits = sum == 0;
      }
    }
    if (!fits) {
      return absl::StrCat("slice ", slice, " is off by ", rest[0],
                          ": a batch is lost or counts twice");
    }
  }
  return "";
}

}  // namespace shoal
