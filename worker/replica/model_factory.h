#ifndef SHOAL_WORKER_REPLICA_MODEL_FACTORY_H_
#define SHOAL_WORKER_REPLICA_MODEL_FACTORY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/nn/model.h"

namespace shoal {

namespace v1 {
class RunConfig;
}

// Makes the model for batches of these fields. `classes` is the number of classes if the labels are
// classes. An error ends the run and is printed as one line.
using ModelFactory = std::function<absl::StatusOr<ModelFunction>(
    const v1::RunConfig& run, const std::vector<FieldSpec>& fields, int64_t classes)>;

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_MODEL_FACTORY_H_
