#include "worker/replica/worker_devices.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/cluster/environment.h"
#include "runtime/cluster/local_worker.h"

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

LocalWorker Worker(uint32_t index) {
  LocalWorker worker;
  worker.index = index;
  return worker;
}

// Returns the devices of the worker, or the error.
std::string Devices(const v1::DeploymentOptions& deployment, const LocalWorker& worker,
                    uint32_t num_gpus) {
  const absl::StatusOr<std::string> devices = DevicesOfWorker(deployment, worker, num_gpus);
  return devices.ok() ? *devices : std::string(devices.status().message());
}

TEST(WorkerDevicesTest, EachWorkerTakesGpusOfItsOwn) {
  const v1::DeploymentOptions slim = Deployment(4, 2, "");
  EXPECT_EQ(Devices(slim, Worker(0), 8), "");  // The run's: /gpu:0 and /gpu:1.
  EXPECT_EQ(Devices(slim, Worker(1), 8), "/gpu:2,/gpu:3");
  EXPECT_EQ(Devices(slim, Worker(3), 8), "/gpu:6,/gpu:7");
  const v1::DeploymentOptions listed = Deployment(2, 3, "/gpu:4, /gpu:5,/cpu:0");
  EXPECT_EQ(Devices(listed, Worker(1), 8), "/gpu:6,/gpu:7,/cpu:0");
  // A list with a gap is moved past its last GPU.
  EXPECT_EQ(Devices(Deployment(2, 2, "/gpu:0,/gpu:2"), Worker(1), 8), "/gpu:3,/gpu:5");
}

TEST(WorkerDevicesTest, MoreWorkersThanGpusIsAnError) {
  const absl::Status status = DevicesOfWorker(Deployment(3, 1, ""), Worker(2), 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "num_replicas: 3 workers of this host take 1 GPU each, and it has 2; give --num_replicas=2, "
      "or --clone_on_cpu to compute on CPUs");
  EXPECT_THAT(Devices(Deployment(2, 2, ""), Worker(1), 3),
              HasSubstr("take 2 GPUs each, and it has 3; give --num_replicas=1, or fewer "
                        "--num_clones, or --clone_on_cpu to compute on CPUs"));
  EXPECT_THAT(Devices(Deployment(2, 1, "/gpu:1"), Worker(1), 2),
              HasSubstr("2 workers of this host take 1 GPU each, from /gpu:1 on, and it has 2; "
                        "give --num_replicas=1, or other devices in --devices"));
}

TEST(WorkerDevicesTest, TheErrorNamesOnlyWhatHelps) {
  // There are too few GPUs for one worker.
  EXPECT_THAT(Devices(Deployment(2, 2, ""), Worker(1), 1),
              HasSubstr("take 2 GPUs each, and it has 1; give fewer --num_clones, or"));
  // The run has more workers, which may be on other hosts.
  EXPECT_THAT(Devices(Deployment(8, 1, ""), Worker(1), 1),
              HasSubstr("and it has 1; start at most 1 worker on it, or give --clone_on_cpu to"));
}

TEST(WorkerDevicesTest, WithoutGpusOrOtherWorkersTheDevicesOfTheRunAreKept) {
  EXPECT_EQ(Devices(Deployment(2, 1, ""), Worker(1), 0), "");
  EXPECT_EQ(Devices(Deployment(1, 1, "/gpu:1"), Worker(1), 2), "");
  EXPECT_EQ(Devices(Deployment(2, 1, "/cpu:0"), Worker(1), 2), "");
  v1::DeploymentOptions on_cpu = Deployment(2, 1, "");
  on_cpu.set_clone_on_cpu(true);
  EXPECT_EQ(Devices(on_cpu, Worker(1), 2), "");
}

TEST(WorkerDevicesTest, WhereOtherJobsAreCountedTooWorkersStillDiffer) {
  // mpirun -n 1 shoal chief : -n 2 shoal ps : -n 4 shoal worker: the workers are 3 to 6.
  LocalWorker worker;
  worker.is_exact = false;
  std::string all;
  for (worker.index = 3; worker.index <= 6; ++worker.index) {
    absl::StrAppend(&all, Devices(Deployment(4, 1, ""), worker, 4), " ");
  }
  EXPECT_EQ(all, "/gpu:3 /gpu:0 /gpu:1 /gpu:2 ");
  // Its parts may have lists of their own.
  EXPECT_EQ(Devices(Deployment(4, 1, "/gpu:1"), worker, 4), "");
  EXPECT_EQ(Devices(Deployment(4, 8, ""), worker, 4), "");
}

TEST(WorkerDevicesTest, EveryLauncherGivesTheWorkersOfAHostTheirOwnGpus) {
  struct Case {
    const char* name;
    Environment environment;
    bool by_rank;
    uint32_t visible;  // GPUs.
    uint32_t clones;
    const char* devices;  // Or a part of the error.
  };
  const Case cases[] = {
      {"mpirun", {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}, true, 4, 2, "/gpu:2,/gpu:3"},
      {"mpirun, too many",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "4"}},
       true,
       4,
       1,
       "5 workers of this host take 1 GPU each, and it has 4"},
      {"mpirun, and a GPU chosen for each task",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"CUDA_VISIBLE_DEVICES", "3"}},
       true,
       1,
       1,
       ""},
      {"mpirun, and GPUs chosen for all tasks",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"CUDA_VISIBLE_DEVICES", "2,3"}},
       true,
       2,
       1,
       "/gpu:1"},
      {"torchrun", {{"LOCAL_RANK", "3"}}, true, 4, 1, "/gpu:3"},
      {"torchrun, too many",
       {{"LOCAL_RANK", "2"}},
       true,
       2,
       1,
       "3 workers of this host take 1 GPU each, and it has 2"},
      {"srun --gres=gpu:4",
       {{"SLURM_LOCALID", "2"}, {"SLURM_GPUS_ON_NODE", "4"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}},
       true,
       4,
       1,
       "/gpu:2"},
      {"srun --gpus-per-task=1",
       {{"SLURM_LOCALID", "2"}, {"SLURM_GPUS_PER_TASK", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}},
       true,
       1,
       1,
       ""},
      {"srun --gpus-per-task=2, for one clone",
       {{"SLURM_LOCALID", "2"}, {"SLURM_GPUS_PER_TASK", "2"}, {"CUDA_VISIBLE_DEVICES", "0,1"}},
       true,
       2,
       1,
       ""},
      {"srun, too many",
       {{"SLURM_LOCALID", "2"}},
       true,
       2,
       1,
       "3 workers of this host take 1 GPU each, and it has 2"},
  };
  for (const Case& given : cases) {
    const auto worker = FindLocalWorker(given.environment, given.by_rank);
    ASSERT_TRUE(worker.ok() && worker->has_value()) << given.name;
    const std::string devices = Devices(Deployment(8, given.clones, ""), **worker, given.visible);
    if (given.devices[0] == '/' || given.devices[0] == '\0') {
      EXPECT_EQ(devices, given.devices) << given.name;
    } else {
      EXPECT_THAT(devices, HasSubstr(given.devices)) << given.name;
    }
  }
}

}  // namespace
}  // namespace shoal
