#include "ml/deploy/deployment_config.h"

#include <utility>

#include "gtest/gtest.h"

#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"
#include "ml/tensor/device_spec.h"

namespace shoal {
namespace {

DeploymentConfig Config(DeploymentConfigOptions options) {
  absl::StatusOr<DeploymentConfig> config = DeploymentConfig::Create(std::move(options));
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

std::string ErrorOf(DeploymentConfigOptions options) {
  return std::string(DeploymentConfig::Create(std::move(options)).status().message());
}

// The device that the config's function gives an op without one.
std::string DeviceOf(const DeviceFunction& function, absl::string_view op,
                     const std::string& device = "") {
  return DeviceSpec::Parse(function(op, device))->ToString();
}

TEST(DeploymentConfigTest, DefaultsAreOneCloneOnTheFirstGpu) {
  const DeploymentConfig config;
  EXPECT_TRUE(ErrorOf({}).empty());
  EXPECT_EQ(config.num_clones(), 1);
  EXPECT_FALSE(config.clone_on_cpu());
  EXPECT_EQ(config.worker_job_name(), "worker");
  EXPECT_EQ(config.ps_job_name(), "ps");
  EXPECT_EQ(*config.clone_device(0), "/device:GPU:0");
  EXPECT_EQ(*config.clone_scope(0), "");
  EXPECT_EQ(config.optimizer_device(), "/device:CPU:0");
  EXPECT_EQ(config.inputs_device(), "/device:CPU:0");
  EXPECT_EQ(DeviceOf(config.variables_device(), "Variable"), "/device:CPU:0");
  EXPECT_FALSE(config.caching_device().has_value());
}

TEST(DeploymentConfigTest, OnTheCpuAllClonesShareIt) {
  const DeploymentConfig config = Config({1, true});
  EXPECT_EQ(*config.clone_device(0), "/device:CPU:0");
  EXPECT_EQ(*config.clone_scope(0), "");
  EXPECT_EQ(*Config({2, true}).clone_device(1), "/device:CPU:0");
}

TEST(DeploymentConfigTest, EachCloneHasItsGpu) {
  const DeploymentConfig config = Config({2});
  EXPECT_EQ(*config.clone_device(0), "/device:GPU:0");
  EXPECT_EQ(*config.clone_device(1), "/device:GPU:1");
  EXPECT_EQ(*config.clone_scope(0), "clone_0");
  EXPECT_EQ(*config.clone_scope(1), "clone_1");
  EXPECT_EQ(config.optimizer_device(), "/device:CPU:0");
  EXPECT_EQ(config.inputs_device(), "/device:CPU:0");
}

TEST(DeploymentConfigTest, WithPsEverythingNamesItsJob) {
  const DeploymentConfig config = Config({2, false, 0, 1, 1});
  EXPECT_EQ(*config.clone_device(0), "/job:worker/device:GPU:0");
  EXPECT_EQ(*config.clone_device(1), "/job:worker/device:GPU:1");
  EXPECT_EQ(*config.clone_scope(1), "clone_1");
  EXPECT_EQ(config.optimizer_device(), "/job:worker/device:CPU:0");
  EXPECT_EQ(config.inputs_device(), "/job:worker/device:CPU:0");
  EXPECT_EQ(DeviceOf(config.variables_device(), "Variable"), "/job:ps/task:0/device:CPU:0");
  EXPECT_EQ(DeviceOf(*config.caching_device(), "Identity"), "");
  EXPECT_EQ(*Config({2, true, 0, 1, 1}).clone_device(1), "/job:worker/device:CPU:0");
}

TEST(DeploymentConfigTest, ReplicasNeverEnterDeviceStrings) {
  const DeploymentConfig config = Config({1, false, 1, 2, 2});
  EXPECT_EQ(config.replica_id(), 1);
  EXPECT_EQ(*config.clone_device(0), "/job:worker/device:GPU:0");
  EXPECT_EQ(*config.clone_scope(0), "");
  EXPECT_EQ(config.optimizer_device(), "/job:worker/device:CPU:0");
}

TEST(DeploymentConfigTest, VariablesGoRoundThePsTasksFromZeroInEachChooser) {
  const DeploymentConfig config = Config({1, false, 0, 1, 2});
  for (int chooser = 0; chooser < 2; ++chooser) {
    const DeviceFunction choose = config.variables_device();
    EXPECT_EQ(DeviceOf(choose, "Variable"), "/job:ps/task:0/device:CPU:0");
    EXPECT_EQ(DeviceOf(choose, "VariableV2"), "/job:ps/task:1/device:CPU:0");
    EXPECT_EQ(DeviceOf(choose, "NoOp"), "");
    EXPECT_EQ(DeviceOf(choose, "Variable", "/device:GPU:0"), "/device:GPU:0");
    EXPECT_EQ(DeviceOf(choose, "Variable"), "/job:ps/task:0/device:CPU:0");
  }
}

TEST(DeploymentConfigTest, VariablesOfABuilderGoRoundToo) {
  const DeploymentConfig config = Config({1, false, 0, 1, 2});
  Graph graph;
  GraphBuilder builder(&graph);
  const auto devices = builder.WithVariableDevice(config.variables_device());
  VariableSpec spec;
  spec.name = "a";
  EXPECT_EQ(builder.GetVariable(spec).node->device.ToString(), "/job:ps/task:0/device:CPU:0");
  spec.name = "b";
  EXPECT_EQ(builder.GetVariable(spec).node->device.ToString(), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(ops::Constant(builder, 0).node->device.ToString(), "");
  const auto nested = builder.WithVariableScope("nested");
  EXPECT_EQ(builder.GetVariable(spec).node->device.ToString(), "/job:ps/task:0/device:CPU:0");
}

TEST(DeploymentConfigTest, ErrorsAreThoseOfSlimInItsOrder) {
  EXPECT_EQ(ErrorOf({1, false, 5, 2, 0, ""}), "When using replicas num_ps_tasks must be positive");
  EXPECT_EQ(ErrorOf({1, false, 5, 2, 1, "", ""}),
            "Must specify worker_job_name when using replicas");
  EXPECT_EQ(ErrorOf({1, false, 0, 1, 1, "worker", ""}),
            "Must specify ps_job_name when using parameter server");
  EXPECT_EQ(ErrorOf({1, false, 1, 1}), "replica_id must be less than num_replicas");
  EXPECT_TRUE(ErrorOf({1, false, 0, 1, 0, "", ""}).empty());
  const DeploymentConfig config;
  EXPECT_EQ(config.clone_device(1).status().message(), "clone_index must be less than num_clones");
  EXPECT_EQ(config.clone_scope(1).status().message(), "clone_index must be less than num_clones");
  EXPECT_FALSE(config.clone_device(-1).ok());
}

TEST(DeploymentConfigTest, CountsBelowOneAreRefused) {
  EXPECT_EQ(ErrorOf({0}), "num_clones must be positive, is 0");
  EXPECT_EQ(ErrorOf({1, false, -1}), "replica_id must not be negative");
  EXPECT_EQ(ErrorOf({1, false, 0, 1, -1}), "num_ps_tasks must not be negative");
}

TEST(DeploymentConfigTest, ClonesTakeTheDevicesThatAreNamed) {
  DeploymentConfigOptions options;
  options.num_clones = 3;
  options.clone_devices = {"/gpu:0", "/gpu:2", "/cpu:1"};
  EXPECT_EQ(*Config(options).clone_device(1), "/device:GPU:2");
  EXPECT_EQ(*Config(options).clone_device(2), "/device:CPU:1");
  options.num_clones = 2;
  EXPECT_EQ(ErrorOf(options), "devices names 3 devices, num_clones is 2; give one per clone");
}

}  // namespace
}  // namespace shoal
