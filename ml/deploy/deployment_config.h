// How a model is laid out over clones, replicas and ps: TF-Slim's DeploymentConfig, with its
// defaults, device strings and error texts.
#ifndef SHOAL_ML_DEPLOY_DEPLOYMENT_CONFIG_H_
#define SHOAL_ML_DEPLOY_DEPLOYMENT_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/graph_builder.h"

namespace shoal {

// The place of variables without ps. Mirrored: a copy on every clone's device, the gradients
// reduced by all of these devices, each its part of the variables.
enum class VariablesOn { kCpu, kFirstDevice, kMirrored };

struct DeploymentConfigOptions {
  int num_clones = 1;         // copies of the model in each replica
  bool clone_on_cpu = false;  // all clones on /device:CPU:0 rather than one GPU each
  int replica_id = 0;
  int num_replicas = 1;
  int num_ps_tasks = 0;
  std::string worker_job_name = "worker";
  std::string ps_job_name = "ps";
  // Not in TF-Slim: the device of each clone, "/gpu:0", "/gpu:2", "/cpu:1"; empty: its rule.
  std::vector<std::string> clone_devices = {};
  VariablesOn variables_on = VariablesOn::kCpu;  // nor is this
  // Not in TF-Slim: the gradients are summed on the clones' devices wherever the variables are,
  // which is best where these devices share one memory.
  bool reduce_on_clones = false;
};

class DeploymentConfig {
 public:
  // One replica with one clone and no ps.
  DeploymentConfig() = default;
  // InvalidArgument with TF-Slim's texts, in its order; then for counts below one.
  static absl::StatusOr<DeploymentConfig> Create(DeploymentConfigOptions options);

  int num_clones() const { return options_.num_clones; }
  bool clone_on_cpu() const { return options_.clone_on_cpu; }
  int replica_id() const { return options_.replica_id; }
  int num_replicas() const { return options_.num_replicas; }
  int num_ps_tasks() const { return options_.num_ps_tasks; }
  const std::string& worker_job_name() const { return options_.worker_job_name; }
  const std::string& ps_job_name() const { return options_.ps_job_name; }
  std::string ps_device() const;      // "/job:ps", or "" without ps
  std::string worker_device() const;  // "/job:worker", or "" without ps

  // Returns "/device:CPU:0" without ps, or the first clone's device. With ps each call returns a
  // new chooser that gives variables without a device to the ps tasks in turn, starting with task
  // 0, and leaves other ops alone.
  DeviceFunction variables_device() const;
  std::string inputs_device() const;
  std::string optimizer_device() const;
  // Returns where reads of variables are cached. Not set without ps; else the op's own device.
  std::optional<DeviceFunction> caching_device() const;
  absl::StatusOr<std::string> clone_device(int clone_index) const;
  // The devices that sum gradients over the clones. Each variable is summed on one of them,
  // balanced by size. Empty: the optimizer's device.
  std::vector<std::string> reduce_devices() const;
  // Every device that has a copy of the variables; without ps only.
  std::vector<std::string> variable_devices() const;
  // "clone_2"; "" for a single clone.
  absl::StatusOr<std::string> clone_scope(int clone_index) const;

 private:
  std::vector<std::string> clone_devices() const;  // each once
  explicit DeploymentConfig(DeploymentConfigOptions options) : options_(std::move(options)) {}

  DeploymentConfigOptions options_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEPLOY_DEPLOYMENT_CONFIG_H_
