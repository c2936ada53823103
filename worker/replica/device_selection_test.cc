#include "worker/replica/device_selection.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/device/kernel.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

v1::DeploymentOptions Deployment(uint32_t clones, const std::string& devices = "") {
  v1::DeploymentOptions deployment;
  deployment.set_num_clones(clones);
  deployment.set_devices(devices);
  return deployment;
}

std::vector<KernelBackend> Gpus(int number) {
  KernelBackend gpus;
  gpus.device_type = "GPU";
  gpus.num_devices = number;
  return {gpus};
}

TEST(DeviceSelectionTest, ClonesAskForTheListOrForAGpuEach) {
  EXPECT_THAT(DevicesOfClones(Deployment(2)), ElementsAre("/gpu:0", "/gpu:1"));
  EXPECT_THAT(DevicesOfClones(Deployment(2, "/gpu:3, /cpu:1")), ElementsAre("/gpu:3", "/cpu:1"));
  v1::DeploymentOptions on_cpu = Deployment(2);
  on_cpu.set_clone_on_cpu(true);
  EXPECT_THAT(DevicesOfClones(on_cpu), ElementsAre("/cpu:0", "/cpu:1"));
}

TEST(DeviceSelectionTest, ClonesBeyondTheGpusAreMissingWhereThereIsAGpu) {
  EXPECT_THAT(MissingDevicesOfClones(Deployment(4), Gpus(2)), ElementsAre("/gpu:2", "/gpu:3"));
  EXPECT_THAT(MissingDevicesOfClones(Deployment(2), Gpus(2)), ElementsAre());
  EXPECT_THAT(MissingDevicesOfClones(Deployment(4), {}), ElementsAre());
  EXPECT_THAT(MissingDevicesOfClones(Deployment(2, "/gpu:0,/gpu:1"), {}),
              ElementsAre("/gpu:0", "/gpu:1"));
  v1::DeploymentOptions on_cpu = Deployment(4);
  on_cpu.set_clone_on_cpu(true);
  EXPECT_THAT(MissingDevicesOfClones(on_cpu, Gpus(2)), ElementsAre());
}

TEST(DeviceSelectionTest, PredictionsUseTheGpusOfTheRunWhereThereAreGpus) {
  EXPECT_THAT(DevicesOfPredictions(Deployment(2), Gpus(4)), ElementsAre("/gpu:0", "/gpu:1"));
  EXPECT_THAT(DevicesOfPredictions(Deployment(2), {}), ElementsAre("/cpu:0", "/cpu:1"));
  // A missing device of a list is named.
  EXPECT_THAT(DevicesOfPredictions(Deployment(1, "/gpu:5"), {}), ElementsAre("/gpu:5"));
  v1::DeploymentOptions on_cpu = Deployment(1);
  on_cpu.set_clone_on_cpu(true);
  EXPECT_THAT(DevicesOfPredictions(on_cpu, Gpus(1)), ElementsAre("/cpu:0"));
}

}  // namespace
}  // namespace shoal
