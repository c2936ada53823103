#include "worker/replica/replica.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "ml/optim/all_finite.h"
#include "ml/optim/gradient_clipping.h"

namespace shoal {
namespace {

// A sparse contribution without rows: what is pushed for a variable that the loss does not depend
// on.
const uint32_t kNoRows = 0;

}  // namespace

Replica::Replica(ReplicaProgram* program, const SliceTable* table,
                 const std::vector<ExchangeGroup>* groups, double clip_by_global_norm)
    : program_(program),
      table_(*table),
      groups_(*groups),
      clip_by_global_norm_(clip_by_global_norm),
      state_(groups_.size()),
      parts_(table_.num_variables()),
      versions_(table_.num_variables()),
      rows_(table_.has_tables() ? std::make_unique<RowSets>(program, table, groups) : nullptr) {
  if (rows_ != nullptr && program->asks_for_rows()) {
    asked_ = std::make_unique<AskedRows>(program, table, rows_.get());
    program->UseAskedRows(asked_.get());
  }
  AllocateMemory();
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (const uint32_t slice : groups_[g].slices) AddSlice(g, slice);
  }
  if (report_group_ != UINT32_MAX) ++state_[report_group_].needs;
  for (Parts& variable : parts_) {
    std::sort(variable.parts.begin(), variable.parts.end(),
              [](Part a, Part b) { return a.end < b.end; });
  }
}

void Replica::AllocateMemory() {
  for (uint32_t set = 0; set < kSets; ++set) {
    for (uint32_t v = 0; v < table_.num_variables(); ++v) {
      if (table_.is_table(v)) {
        parameters_[set].push_back(nullptr);
        contributions_[set].push_back(nullptr);
        continue;
      }
      const uint64_t bytes = table_.elements_of(v) * sizeof(float);
      parameters_[set].push_back(OrOwnMemory(program_->ParameterMemory(set, v), bytes));
      float* contribution = nullptr;
      if (program_->contributes(v)) {
        contribution = OrOwnMemory(program_->ContributionMemory(set, v), bytes);
      }
      contributions_[set].push_back(contribution);
    }
  }
}

void Replica::AddSlice(uint32_t group, uint32_t slice_index) {
  const Slice& slice = table_[slice_index];
  Group& state = state_[group];
  if (slice_index == table_.report_slice()) report_group_ = group;
  if (slice.is_bucket) {
    state.kinds.push_back(ContributionKind::kRows);
    return;
  }
  const bool contributes = program_->contributes(slice.variable);
  for (uint32_t set = 0; set < kSets; ++set) {
    state.pull[set].push_back(const_cast<float*>(parameters_[set][slice.variable]) +
                              slice.first_element);
    const void* push = &kNoRows;
    if (contributes) push = contributions_[set][slice.variable] + slice.first_element;
    state.push[set].push_back(push);
  }
  const v1::VariableSpec& spec = program_->variables()[slice.variable];
  state.kinds.push_back(!contributes ? ContributionKind::kSparse
                        : spec.update() == v1::UPDATE_KIND_OPTIMIZER
                            ? ContributionKind::kDense
                            : ContributionKind::kStatistic);
  state.bytes.push_back(contributes ? slice.num_bytes() : sizeof(kNoRows));
  if (!contributes) return;
  const uint64_t end = slice.first_element + slice.num_elements;
  std::vector<Part>& parts = parts_[slice.variable].parts;
  if (!parts.empty() && parts.back().group == group) {
    parts.back().end = end;
  } else {
    parts.push_back({group, end});
    ++state.needs;
  }
}

float* Replica::OrOwnMemory(float* memory, uint64_t bytes) {
  if (memory != nullptr) return memory;
  memory_.emplace_back(bytes);
  return static_cast<float*>(memory_.back().data());
}

float* const* Replica::pull_data(uint32_t set, uint32_t group, uint64_t lineage) {
  Group& state = state_[group];
  const bool is_known = !groups_[group].versioned && state.number != 0 && state.lineage == lineage;
  if (!is_known) {
    state.lineage = lineage;
    state.number = last_pull_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  state.pulled[set] = state.number;
  return state.pull[set].data();
}

absl::Span<const uint64_t> Replica::GetVersions(uint32_t parameter_set) {
  std::fill(versions_.begin(), versions_.end(), 0);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].buckets) continue;
    for (uint32_t slice : groups_[g].slices) {
      uint64_t& version = versions_[table_[slice].variable];
      version = std::max(version, state_[g].pulled[parameter_set]);
    }
  }
  return versions_;
}

void Replica::SettleParts(uint32_t variable, uint64_t num_elements, uint32_t set,
                          OnGroup on_group) {
  auto& [parts, next] = parts_[variable];
  while (next < parts.size() && parts[next].end <= num_elements) {
    Settle(parts[next++].group, set, on_group);
  }
}

bool Replica::IsFinite(uint32_t set, uint32_t group) const {
  for (size_t i = 0; i < groups_[group].slices.size(); ++i) {
    const Slice& slice = table_[groups_[group].slices[i]];
    if (!program_->contributes(slice.variable)) continue;
    if (!AllFinite(static_cast<const float*>(state_[group].push[set][i]), slice.num_elements))
      return false;
  }
  return true;
}

void Replica::Settle(uint32_t group, uint32_t set, OnGroup on_group) {
  if (groups_[group].buckets) return;  // Train hands them over at its end.
  if (state_[group].missing.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (clip_by_global_norm_ == 0) HandOver(group, IsFinite(set, group), on_group);
}

void Replica::HandOver(uint32_t group, bool finite, OnGroup on_group) const {
  BatchReport report;
  if (group == report_group_) {
    report.loss_sum = result_.loss_sum;
    report.regularization = result_.regularization;
    report.correct = result_.correct;
    report.examples = result_.examples;
    report.metrics = result_.metrics;
    FinishHistograms(&report.metrics);
  }
  on_group(group, finite && std::isfinite(report.loss_sum), report);
}

std::optional<float> Replica::ClipGradients(const LoadedBatch& batch, uint32_t set) {
  bool finite = std::isfinite(result_.loss_sum);
  double sum_of_squares = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].buckets) continue;
    finite = finite && IsFinite(set, g);
    for (size_t i = 0; i < groups_[g].slices.size(); ++i) {
      if (state_[g].kinds[i] != ContributionKind::kDense) continue;
      sum_of_squares += SumOfSquares({static_cast<const float*>(state_[g].push[set][i]),
                                      table_[groups_[g].slices[i]].num_elements});
    }
  }
  if (rows_ != nullptr && !rows_->AddSquares(GetRowKeys(batch), &sum_of_squares))
    return std::nullopt;
  const float scale = ClipScale(sum_of_squares, clip_by_global_norm_);
  if (!finite || !std::isfinite(scale)) return std::nullopt;
  if (scale == 1) return scale;
  for (uint32_t v = 0; v < table_.num_variables(); ++v) {
    if (contributions_[set][v] == nullptr ||
        program_->variables()[v].update() != v1::UPDATE_KIND_OPTIMIZER) {
      continue;
    }
    for (uint64_t i = 0; i < table_.elements_of(v); ++i) contributions_[set][v][i] *= scale;
  }
  return scale;
}

std::unique_ptr<BatchDigest> Replica::MakeDigest() const {
  if (rows_ == nullptr || asked_ != nullptr) return nullptr;
  return std::make_unique<BatchKeys>(&table_, program_->lookups());
}

absl::Status Replica::Evaluate(const LoadedBatch& batch, uint32_t parameter_set,
                               BatchResult* result) {
  if (rows_ != nullptr && asked_ == nullptr) {
    program_->UseRows(rows_->GetRows(RowSets::kEvaluationSet, GetKeys(batch)));
  }
  return program_->Evaluate(batch, parameters_[parameter_set], GetVersions(parameter_set), result);
}

absl::Status Replica::Train(const LoadedBatch& batch, uint32_t parameter_set,
                            uint32_t contribution_set, OnGroup on_group) {
  for (Group& group : state_) group.missing.store(group.needs, std::memory_order_relaxed);
  for (Parts& variable : parts_) variable.next = 0;
  result_ = BatchResult();
  ReplicaProgram::TrainArguments arguments;
  arguments.batch = &batch;
  arguments.parameters = parameters_[parameter_set];
  arguments.contributions = contributions_[contribution_set];
  arguments.versions = GetVersions(parameter_set);
  if (rows_ != nullptr && asked_ == nullptr) {
    program_->UseRows(rows_->GetRows(parameter_set, GetKeys(batch)));
  }
  absl::Status status = program_->Train(
      arguments, &result_,
      [&](uint32_t variable, int64_t num_elements) {
        if (IsDropped()) return;
        SettleParts(variable, static_cast<uint64_t>(num_elements), contribution_set, on_group);
      },
      [&] {
        if (report_group_ == UINT32_MAX || IsDropped()) return;
        Settle(report_group_, contribution_set, on_group);
      });
  if (!status.ok() || IsDropped()) return status;
  if (asked_ != nullptr) {
    asked_->Collect();
    RETURN_IF_ERROR(rows_->CheckFits(asked_->keys()));
  }
  std::optional<float> scale = 1.0f;
  if (clip_by_global_norm_ > 0) scale = ClipGradients(batch, contribution_set);
  const bool finite = scale.has_value();
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].buckets) {
      HandOver(g, finite && rows_->Encode(contribution_set, g, GetRowKeys(batch), *scale),
               on_group);
    } else if (state_[g].needs > 0 && clip_by_global_norm_ > 0) {
      HandOver(g, finite, on_group);
    } else if (state_[g].needs == 0 && groups_[g].versioned) {  // waits for nothing
      on_group(g, finite, BatchReport());
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal
