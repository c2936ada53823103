#include "runtime/cluster/local_worker.h"

#include <string>

#include "gtest/gtest.h"

#include "runtime/cluster/environment.h"

namespace shoal {
namespace {

struct Case {
  const char* name;
  Environment environment;
  bool by_rank;
  bool found;
  LocalWorker worker;
};

TEST(LocalWorkerTest, EachLauncherNumbersTheTasksOfAHost) {
  const Case cases[] = {
      {"none", {}, true, false, {}},
      {"Kubernetes", {{"JOB_COMPLETION_INDEX", "3"}}, true, false, {}},
      {"PyTorchJob, one task in a pod", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, true, false, {}},
      {"mpirun shoal task",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_NUM_APP_CTX", "1"}},
       true,
       true,
       {2, true, false, false}},
      {"mpirun shoal worker",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}},
       false,
       true,
       {2, true, false, false}},
      {"mpirun shoal chief : shoal ps : shoal worker",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "4"}, {"OMPI_NUM_APP_CTX", "3"}},
       false,
       true,
       {4, false, false, false}},
      {"GPUs chosen for mpirun",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"CUDA_VISIBLE_DEVICES", "2,3"}},
       true,
       true,
       {1, true, false, true}},
      {"torchrun", {{"LOCAL_RANK", "1"}, {"RANK", "5"}}, true, true, {1, true, false, false}},
      {"mpirun inside of a Slurm step",
       {{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"SLURM_LOCALID", "0"}},
       true,
       true,
       {3, true, false, false}},
      {"srun shoal task", {{"SLURM_LOCALID", "1"}}, true, true, {1, true, false, false}},
      {"srun --multi-prog", {{"SLURM_LOCALID", "3"}}, false, true, {3, false, false, false}},
      {"srun --gres=gpu:4: all tasks of the node see all of its GPUs",
       {{"SLURM_LOCALID", "1"}, {"SLURM_GPUS_ON_NODE", "4"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}},
       true,
       true,
       {1, true, false, true}},
      {"srun --gpus-per-task=1",
       {{"SLURM_LOCALID", "1"}, {"SLURM_GPUS_PER_TASK", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}},
       true,
       true,
       {1, true, true, true}},
      {"srun --tres-per-task=gres/gpu:2",
       {{"SLURM_LOCALID", "1"}, {"SLURM_TRES_PER_TASK", "gres/gpu:2"}},
       true,
       true,
       {1, true, true, false}},
      {"srun --gpu-bind=single:1",
       {{"SLURM_LOCALID", "1"}, {"SLURM_GPU_BIND", "single:1"}},
       true,
       true,
       {1, true, true, false}},
      {"srun --gpus-per-task=1 --gpu-bind=none",
       {{"SLURM_LOCALID", "1"}, {"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_GPU_BIND", "none"}},
       true,
       true,
       {1, true, false, false}},
      {"bound by the administrator",
       {{"SLURM_LOCALID", "1"}, {"SLURM_GPUS_ON_NODE", "4"}, {"CUDA_VISIBLE_DEVICES", "1"}},
       true,
       true,
       {1, true, true, true}},
  };
  for (const Case& given : cases) {
    const auto found = FindLocalWorker(given.environment, given.by_rank);
    ASSERT_TRUE(found.ok()) << given.name << ": " << found.status();
    ASSERT_EQ(found->has_value(), given.found) << given.name;
    if (!given.found) continue;
    EXPECT_EQ((*found)->index, given.worker.index) << given.name;
    EXPECT_EQ((*found)->is_exact, given.worker.is_exact) << given.name;
    EXPECT_EQ((*found)->has_own_gpus, given.worker.has_own_gpus) << given.name;
    EXPECT_EQ((*found)->gpus_were_chosen, given.worker.gpus_were_chosen) << given.name;
  }
}

TEST(LocalWorkerTest, AVariableThatIsNotANumberIsNamed) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK", "SLURM_LOCALID"}) {
    const absl::Status status = FindLocalWorker({{name, "x"}}, true).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(std::string(status.message()).find(name), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace shoal
