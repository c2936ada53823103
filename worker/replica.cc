#include "worker/replica.h"

#include <algorithm>
#include <cmath>

#include "ml/optim/all_finite.h"

namespace shoal {
namespace {

// A sparse contribution without rows: what is pushed for a variable that the loss does not depend
// on.
const uint32_t kNoRows = 0;

}  // namespace

Replica::Replica(ReplicaProgram* program, const SliceTable* table,
                 const std::vector<ExchangeGroup>* groups)
    : program_(program), table_(*table), groups_(*groups) {
  const uint32_t num_variables = table_.num_variables();
  for (uint32_t set = 0; set < kSets; ++set) {
    for (uint32_t v = 0; v < num_variables; ++v) {
      const uint64_t bytes = table_.elements_of(v) * sizeof(float);
      memory_.emplace_back(bytes);
      parameters_[set].push_back(static_cast<float*>(memory_.back().data()));
      float* contribution = nullptr;
      if (program_->contributes(v)) {
        memory_.emplace_back(bytes);
        contribution = static_cast<float*>(memory_.back().data());
      }
      contributions_[set].push_back(contribution);
    }
  }
  groups_of_variable_.resize(num_variables);
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
      std::vector<uint32_t>& known = groups_of_variable_[slice.variable];
      if (contributes && (known.empty() || known.back() != g)) {
        known.push_back(g);
        ++needs_[g];
      }
      if (s == table_.report_slice()) report_group_ = g;
    }
  }
  if (report_group_ != UINT32_MAX) ++needs_[report_group_];
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
  BatchReport report;
  if (group == report_group_) {
    report.loss_sum = result_.loss_sum;
    report.regularization = result_.regularization;
    report.correct = result_.correct;
    report.examples = result_.examples;
  }
  on_group(group, IsFinite(set, group) && std::isfinite(report.loss_sum), report);
}

absl::Status Replica::Train(const LoadedBatch& batch, uint32_t parameter_set,
                            uint32_t contribution_set, OnGroup on_group) {
  for (uint32_t g = 0; g < groups_.size(); ++g)
    left_[g].store(needs_[g], std::memory_order_relaxed);
  result_ = BatchResult();
  ReplicaProgram::TrainArguments arguments;
  arguments.batch = &batch;
  arguments.parameters = parameters_[parameter_set];
  arguments.contributions = contributions_[contribution_set];
  absl::Status status = program_->Train(
      arguments, &result_,
      [&](uint32_t variable) {
        for (uint32_t g : groups_of_variable_[variable]) Settle(g, contribution_set, on_group);
      },
      [&] {
        if (report_group_ != UINT32_MAX) Settle(report_group_, contribution_set, on_group);
      });
  if (!status.ok()) return status;
  for (uint32_t g = 0; g < groups_.size(); ++g) {  // groups that wait for nothing
    if (needs_[g] == 0 && groups_[g].versioned) on_group(g, true, BatchReport());
  }
  return absl::OkStatus();
}

}  // namespace shoal
