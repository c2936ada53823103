// (testonly) What tests of rows share: the variables of a program with two tables, and what a
// trainer does with the rows that a replica pulls and pushes.
#ifndef SHOAL_WORKER_REPLICA_TWO_TABLES_TESTING_H_
#define SHOAL_WORKER_REPLICA_TWO_TABLES_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/row_payload.h"
#include "worker/replica/replica.h"
#include "worker/replica/replica_program.h"

namespace shoal {

inline constexpr uint64_t kTestDim = 2;  // Floats of a row.

// A weight "w", which each batch contributes to with a gradient of threes, a table "a" of 4 buckets
// and a table "b" of 2. New rows have values from 0.5 to 1.
class TwoTablesProgram : public ReplicaProgram {
 public:
  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t variable) const override { return variable == 0; }
  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }

 protected:
  // Ends a call of Train: reports a loss of 1 and the weight's gradient.
  static void FinishTraining(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                             absl::FunctionRef<void()> on_result) {
    result->loss_sum = 1;
    on_result();
    arguments.contributions[0][0] = arguments.contributions[0][1] = 3;
    on_final(0, 2);
  }

 private:
  static v1::VariableSpec Spec(const char* name, uint32_t buckets) {
    v1::VariableSpec spec;
    spec.set_name(name);
    spec.add_shape(kTestDim);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_trainable(true);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    if (buckets == 0) return spec;
    spec.mutable_table()->set_buckets(buckets);
    spec.mutable_initializer()->set_kind(v1::Initializer::KIND_UNIFORM);
    spec.mutable_initializer()->set_a(0.5);
    spec.mutable_initializer()->set_b(1);
    return spec;
  }

  const std::vector<v1::VariableSpec> variables_ = {Spec("w", 0), Spec("a", 4), Spec("b", 2)};
};

// Does what the pulls of a set would do: the row of a key becomes 10 * key, 10 * key + 1.
inline void FillPulledRows(const RowSets& rows, const SliceTable& table,
                           const std::vector<ExchangeGroup>& groups, uint32_t set) {
  for (uint32_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; groups[g].buckets && i < groups[g].slices.size(); ++i) {
      const uint32_t slice = groups[g].slices[i];
      const RowPull& pull = rows.pulls(set, g)[i];
      for (uint32_t k = 0; k < pull.num_keys; ++k) {
        EXPECT_EQ(table.BucketOf(table[slice].variable, pull.keys[k]), slice);
        pull.values[k * kTestDim] = static_cast<float>(10 * pull.keys[k]);
        pull.values[k * kTestDim + 1] = static_cast<float>(10 * pull.keys[k] + 1);
      }
    }
  }
}

// The gradients of rows that a batch pushes, keyed by key, for each of the two tables.
struct PushedRows {
  std::map<uint64_t, std::vector<float>> tables[2];
};

// Adds the rows that a group of buckets pushes from a set of contributions.
inline void AddPushedRows(const Replica& replica, const SliceTable& table,
                          const ExchangeGroup& group, uint32_t group_index, uint32_t set,
                          PushedRows* pushed) {
  for (size_t i = 0; i < group.slices.size(); ++i) {
    const uint64_t bytes = replica.push_bytes(set, group_index)[i];
    if (bytes == 0) continue;
    EXPECT_EQ(replica.push_kinds(group_index)[i], ContributionKind::kRows);
    const Payload payload = {ContributionKind::kRows, replica.push_data(set, group_index)[i],
                             bytes};
    RowScratch scratch;
    const std::optional<RowGradients> rows = DecodeRows(payload, kTestDim, &scratch);
    ASSERT_TRUE(rows.has_value());
    const uint32_t variable = table[group.slices[i]].variable;
    for (size_t k = 0; k < rows->keys.size(); ++k) {
      EXPECT_EQ(table.BucketOf(variable, rows->keys[k]), group.slices[i]);
      const float* row = rows->gradients + k * kTestDim;
      pushed->tables[variable - 1][rows->keys[k]] = {row[0], row[1]};
    }
  }
}

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_TWO_TABLES_TESTING_H_
