#include "worker/replica/replica.h"

#include <algorithm>
#include <cmath>

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
      clip_by_global_norm_(clip_by_global_norm) {
  const uint32_t num_variables = table_.num_variables();
  for (uint32_t set = 0; set < kSets; ++set) {
    for (uint32_t v = 0; v < num_variables; ++v) {
      const uint64_t bytes = table_.elements_of(v) * sizeof(float);
      parameters_[set].push_back(OrOwnMemory(program_->ParameterMemory(set, v), bytes));
      float* contribution = nullptr;
      if (program_->contributes(v)) {
        contribution = OrOwnMemory(program_->ContributionMemory(set, v), bytes);
      }
      contributions_[set].push_back(contribution);
    }
  }
  for (std::vector<uint64_t>& pulled : pulled_) pulled.resize(groups_.size());
  lineage_pulls_.resize(groups_.size());
  versions_.resize(num_variables);
  parts_.resize(num_variables);
  next_part_.resize(num_variables);
  needs_.resize(groups_.size());
  kinds_.resize(groups_.size());
  bytes_.resize(groups_.size());
  left_ = std::make_unique<std::atomic<uint32_t>[]>(groups_.size());
  for (uint32_t set = 0; set < kSets; ++set) {
    pull_[set].resize(groups_.size());
    push_[set].resize(groups_.size());
  }
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t s : groups_[g].slices) {
      const Slice& slice = table_[s];
      const v1::VariableSpec& spec = program_->variables()[slice.variable];
      const bool contributes = program_->contributes(slice.variable);
      for (uint32_t set = 0; set < kSets; ++set) {
        pull_[set][g].push_back(const_cast<float*>(parameters_[set][slice.variable]) +
                                slice.first_element);
        push_[set][g].push_back(contributes
                                    ? static_cast<const void*>(contributions_[set][slice.variable] +
                                                               slice.first_element)
                                    : &kNoRows);
      }
      kinds_[g].push_back(!contributes ? ContributionKind::kSparse
                          : spec.update() == v1::UPDATE_KIND_OPTIMIZER
                              ? ContributionKind::kDense
                              : ContributionKind::kStatistic);
      bytes_[g].push_back(contributes ? slice.num_bytes() : sizeof(kNoRows));
      const uint64_t end = slice.first_element + slice.num_elements;
      std::vector<Part>& parts = parts_[slice.variable];
      if (contributes && !parts.empty() && parts.back().group == g) {
        parts.back().end = end;
      } else if (contributes) {
        parts.push_back({g, end});
        ++needs_[g];
      }
      if (s == table_.report_slice()) report_group_ = g;
    }
  }
  if (report_group_ != UINT32_MAX) ++needs_[report_group_];
  for (std::vector<Part>& parts : parts_) {
    std::sort(parts.begin(), parts.end(), [](Part a, Part b) { return a.end < b.end; });
  }
}

float* Replica::OrOwnMemory(float* memory, uint64_t bytes) {
  if (memory != nullptr) return memory;
  memory_.emplace_back(bytes);
  return static_cast<float*>(memory_.back().data());
}

float* const* Replica::pull_data(uint32_t set, uint32_t group, uint64_t lineage) {
  LineagePull& known = lineage_pulls_[group];
  const bool is_known = !groups_[group].versioned && known.number != 0 && known.lineage == lineage;
  if (!is_known) known = {lineage, last_pull_.fetch_add(1, std::memory_order_relaxed) + 1};
  pulled_[set][group] = known.number;
  return pull_[set][group].data();
}

absl::Span<const uint64_t> Replica::VersionsOf(uint32_t parameter_set) {
  std::fill(versions_.begin(), versions_.end(), 0);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t slice : groups_[g].slices) {
      uint64_t& version = versions_[table_[slice].variable];
      version = std::max(version, pulled_[parameter_set][g]);
    }
  }
  return versions_;
}

void Replica::SettleParts(uint32_t variable, uint64_t num_elements, uint32_t set,
                          OnGroup on_group) {
  const std::vector<Part>& parts = parts_[variable];
  uint32_t& next = next_part_[variable];
  while (next < parts.size() && parts[next].end <= num_elements) {
    Settle(parts[next++].group, set, on_group);
  }
}

bool Replica::IsFinite(uint32_t set, uint32_t group) const {
  for (size_t i = 0; i < groups_[group].slices.size(); ++i) {
    const Slice& slice = table_[groups_[group].slices[i]];
    if (!program_->contributes(slice.variable)) continue;
    if (!AllFinite(static_cast<const float*>(push_[set][group][i]), slice.num_elements))
      return false;
  }
  return true;
}

void Replica::Settle(uint32_t group, uint32_t set, OnGroup on_group) {
  if (left_[group].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
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

bool Replica::ClipGradients(uint32_t set) {
  bool finite = std::isfinite(result_.loss_sum);
  double sum_of_squares = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    finite = finite && IsFinite(set, g);
    for (size_t i = 0; i < groups_[g].slices.size(); ++i) {
      if (kinds_[g][i] != ContributionKind::kDense) continue;
      sum_of_squares += SumOfSquares(
          {static_cast<const float*>(push_[set][g][i]), table_[groups_[g].slices[i]].num_elements});
    }
  }
  const float scale = ClipScale(sum_of_squares, clip_by_global_norm_);
  if (!finite || !std::isfinite(scale)) return false;
  if (scale == 1) return true;
  for (uint32_t v = 0; v < table_.num_variables(); ++v) {
    if (contributions_[set][v] == nullptr ||
        program_->variables()[v].update() != v1::UPDATE_KIND_OPTIMIZER) {
      continue;
    }
    for (uint64_t i = 0; i < table_.elements_of(v); ++i) contributions_[set][v][i] *= scale;
  }
  return true;
}

absl::Status Replica::Train(const LoadedBatch& batch, uint32_t parameter_set,
                            uint32_t contribution_set, OnGroup on_group) {
  for (uint32_t g = 0; g < groups_.size(); ++g)
    left_[g].store(needs_[g], std::memory_order_relaxed);
  std::fill(next_part_.begin(), next_part_.end(), 0);
  result_ = BatchResult();
  ReplicaProgram::TrainArguments arguments;
  arguments.batch = &batch;
  arguments.parameters = parameters_[parameter_set];
  arguments.contributions = contributions_[contribution_set];
  arguments.versions = VersionsOf(parameter_set);
  absl::Status status = program_->Train(
      arguments, &result_,
      [&](uint32_t variable, int64_t num_elements) {
        SettleParts(variable, static_cast<uint64_t>(num_elements), contribution_set, on_group);
      },
      [&] {
        if (report_group_ != UINT32_MAX) Settle(report_group_, contribution_set, on_group);
      });
  if (!status.ok()) return status;
  const bool finite = clip_by_global_norm_ == 0 || ClipGradients(contribution_set);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (needs_[g] > 0 && clip_by_global_norm_ > 0) {
      HandOver(g, finite, on_group);
    } else if (needs_[g] == 0 && groups_[g].versioned) {  // waits for nothing
      on_group(g, finite, BatchReport());
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal
