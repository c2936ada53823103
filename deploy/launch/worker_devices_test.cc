#include "deploy/launch/worker_devices.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

v1::DeploymentOptions Deployment(uint32_t workers, uint32_t clones, const std::string& devices) {
  v1::DeploymentOptions deployment;
  deployment.set_num_replicas(workers);
  deployment.set_num_clones(clones);
  deployment.set_devices(devices);
  return deployment;
}

TEST(WorkerDevicesTest, EachWorkerTakesGpusOfItsOwn) {
  const v1::DeploymentOptions slim = Deployment(4, 2, "");
  EXPECT_EQ(DevicesOfWorker(slim, 0, 8).value(), "/gpu:0,/gpu:1");
  EXPECT_EQ(DevicesOfWorker(slim, 3, 8).value(), "/gpu:6,/gpu:7");
  const v1::DeploymentOptions listed = Deployment(2, 3, "/gpu:4, /gpu:5,/cpu:0");
  EXPECT_EQ(DevicesOfWorker(listed, 0, 8).value(), "/gpu:4,/gpu:5,/cpu:0");
  EXPECT_EQ(DevicesOfWorker(listed, 1, 8).value(), "/gpu:6,/gpu:7,/cpu:0");
  // A list with a gap is moved past its last GPU.
  EXPECT_EQ(DevicesOfWorker(Deployment(2, 2, "/gpu:0,/gpu:2"), 1, 8).value(), "/gpu:3,/gpu:5");
}

TEST(WorkerDevicesTest, MoreWorkersThanGpusIsAnError) {
  const absl::Status status = DevicesOfWorker(Deployment(3, 1, ""), 2, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("num_replicas: each worker takes GPUs of its own, and worker 2 would take "
                        "/gpu:2 of a machine with 2 GPUs; give fewer workers"));
}

TEST(WorkerDevicesTest, WithoutGpusOrOtherWorkersTheRunsDevicesStand) {
  EXPECT_EQ(DevicesOfWorker(Deployment(2, 1, ""), 1, 0).value(), "");
  EXPECT_EQ(DevicesOfWorker(Deployment(1, 1, "/gpu:1"), 0, 2).value(), "");
  EXPECT_EQ(DevicesOfWorker(Deployment(2, 1, "/cpu:0"), 1, 2).value(), "");
  v1::DeploymentOptions on_cpu = Deployment(2, 1, "");
  on_cpu.set_clone_on_cpu(true);
  EXPECT_EQ(DevicesOfWorker(on_cpu, 1, 2).value(), "");
}

}  // namespace
}  // namespace shoal
