#include "worker/replica/table_variable.h"

#include <optional>

#include "base/status_macros.h"
#include "ml/optim/table_config.h"
#include "ml/tensor/initializer.h"
#include "runtime/config/optimizer_groups.h"

namespace shoal {

uint32_t DefaultBuckets(size_t num_tables) {
  uint32_t buckets = 256;
  while (buckets > 16 && buckets * num_tables > 1024) buckets /= 2;
  return buckets;
}

absl::StatusOr<v1::VariableSpec> TableVariable(const v1::TableConfig& table,
                                               const v1::OptimizerConfig& run, size_t num_tables) {
  ASSIGN_OR_RETURN(const OptimizerGroups groups, OptimizerGroups::Create(run));
  const std::optional<size_t> group = groups.Find(table.name());
  v1::VariableSpec spec;
  spec.set_name(table.name());
  spec.add_shape(table.dim());
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  const InitializerSpec initializer = RowInitializer(table);
  spec.mutable_initializer()->set_kind(static_cast<v1::Initializer::Kind>(initializer.kind));
  spec.mutable_initializer()->set_a(initializer.a);
  spec.mutable_initializer()->set_b(initializer.b);
  v1::TableSpec& rows = *spec.mutable_table();
  rows.set_buckets(table.buckets() == 0 ? DefaultBuckets(num_tables) : table.buckets());
  *rows.mutable_optimizer() =
      RowOptimizer(table, run, group.has_value() ? &run.group(static_cast<int>(*group)) : nullptr);
  rows.set_rowwise(table.optimizer().has_rowwise_adagrad());
  rows.set_l2(table.optimizer().l2());
  rows.set_min_count(table.admission().min_count());
  rows.set_idle_updates(table.expiry().idle_updates());
  return spec;
}

}  // namespace shoal
