// The rules that a resolved run must obey. The checks use no files and do not depend on the
// machine.
#ifndef SHOAL_RUNTIME_CONFIG_VALIDATE_H_
#define SHOAL_RUNTIME_CONFIG_VALIDATE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace shoal {

namespace v1 {
class DataConfig;
class ModelConfig;
class OptimizerConfig;
class RunConfig;
}  // namespace v1

// Upper bounds that keep a typing error from becoming an allocation.
inline constexpr uint32_t kMaxClones = 64;
inline constexpr uint32_t kMaxReplicas = 4096;
inline constexpr uint32_t kMaxPsTasks = 4096;
inline constexpr uint32_t kMaxThreads = 256;
inline constexpr uint32_t kMaxReplicasToAggregate = 4096;
inline constexpr uint32_t kMaxBatchSize = 1u << 20;
inline constexpr uint32_t kMaxReplicaBatchSize = 1u << 26;
inline constexpr uint64_t kMinSliceBytes = 64;
// The smallest cluster.ps_memory, if it is given.
inline constexpr uint64_t kMinPsMemory = 64 << 20;
inline constexpr uint64_t kMaxSliceBytes = uint64_t{4} << 20;

// The source of the model. Chief and ps need no model, and a user's program has its own.
enum class ModelFrom { kRunFile, kElsewhere };

// Returns InvalidArgument with one line, "field.path: what is wrong; what to do", for the first
// broken rule. Call it after ResolveDefaults.
absl::Status ValidateRunConfig(const v1::RunConfig& run, ModelFrom model = ModelFrom::kRunFile);

// Parts of ValidateRunConfig, each in its own file.
absl::Status ValidateModel(const v1::ModelConfig& model);
absl::Status ValidateData(const v1::DataConfig& data);
absl::Status ValidateOptimizer(const v1::OptimizerConfig& optimizer);
// Checks the tables, and that the model's features fit them.
absl::Status ValidateTables(const v1::RunConfig& run);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_VALIDATE_H_
