// Describes how a model is deployed on clones, replicas and ps. It is TF-Slim's DeploymentConfig
// with the same defaults, device strings and error texts.
#ifndef SHOAL_ML_DEPLOY_DEPLOYMENT_CONFIG_H_
#define SHOAL_ML_DEPLOY_DEPLOYMENT_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/graph_builder.h"

namespace shoal {

// The devices of the variables if there are no ps. kMirrored: every clone's device has a copy of
// all variables, and each of these devices sums the gradients of a part of the variables.
enum class VariablesOn { kCpu, kFirstDevice, kMirrored };

struct DeploymentConfigOptions {
  int num_clones = 1;         // copies of the model in each replica
  bool clone_on_cpu = false;  // all clones on /device:CPU:0 rather than one GPU each
  int replica_id = 0;
  int num_replicas = 1;
  int num_ps_tasks = 0;
  std::string worker_job_name = "worker";
  std::string ps_job_name = "ps";
  // Not in TF-Slim: the device of each clone, such as "/gpu:0", "/gpu:2", "/cpu:1". Empty:
  // TF-Slim's rule (GPU i for clone i, or the CPU if clone_on_cpu).
  std::vector<std::string> clone_devices = {};
  VariablesOn variables_on = VariablesOn::kCpu;  // not in TF-Slim
  // Not in TF-Slim: the clones' devices sum the gradients, no matter where the variables are. This
  // is best if these devices share one memory.
  bool reduce_on_clones = false;
};

class DeploymentConfig {
 public:
  // One replica with one clone and no ps.
  DeploymentConfig() = default;
  // Returns InvalidArgument for the mistakes that TF-Slim refuses, with its texts and in its order
  // of checks, and then for numbers that are too small and for fields that contradict each other.
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

  // Returns the function that gives variables a device. Without ps it is "/device:CPU:0", or the
  // first clone's device with VariablesOn::kFirstDevice and kMirrored. With ps each call returns a
  // new function, which gives variables without a device to the ps tasks in turn, starting with
  // task 0, and leaves other ops alone.
  DeviceFunction variables_device() const;
  std::string inputs_device() const;
  std::string optimizer_device() const;
  // Returns a function that gives the device on which reads of a variable are cached: with ps, the
  // device of the reading op. Not set without ps.
  std::optional<DeviceFunction> caching_device() const;
  absl::StatusOr<std::string> clone_device(int clone_index) const;
  // Returns the devices that sum gradients over the clones. Each variable's gradient is summed on
  // one of them, balanced by size. Empty: the optimizer's device sums all.
  std::vector<std::string> reduce_devices() const;
  // Returns every device that has a copy of the variables. Only for a deployment without ps.
  std::vector<std::string> variable_devices() const;
  // Returns the name scope of a clone, such as "clone_2"; "" if there is only one clone.
  absl::StatusOr<std::string> clone_scope(int clone_index) const;

 private:
  std::vector<std::string> clone_devices() const;  // equal neighbours once
  explicit DeploymentConfig(DeploymentConfigOptions options) : options_(std::move(options)) {}

  DeploymentConfigOptions options_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEPLOY_DEPLOYMENT_CONFIG_H_
