// Tests the variables of each launcher as it really sets them, and malformed ones.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/cluster/expect_resolved_testing.h"
#include "runtime/cluster/task_resolver.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ResolverInput Input(const char* source, Environment environment) {
  ResolverInput input;
  input.from = *ParseClusterSource(source);
  input.environment = std::move(environment);
  input.hostname = "vm";
  return input;
}

TEST(KubernetesTest, AnIndexedJobsPodsAreNumbered) {
  ResolverInput input = Input("kubernetes", {{"JOB_COMPLETION_INDEX", "2"}});
  input.job = Job::kWorker;
  input.hostname = "train-worker-2";
  input.chief_host = "train-chief-0.train:2222";
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kWorker, 2}));
  EXPECT_EQ(Resolved(input).chief_address, "train-chief-0.train:2222");
  input.chief_host = "train-chief-0.train";
  EXPECT_EQ(Resolved(input).chief_address, "train-chief-0.train:2222");
  input.environment["JOB_COMPLETION_INDEX"] = "two";
  EXPECT_THAT(Error(input), StartsWith("JOB_COMPLETION_INDEX: a whole number"));
  input.chief_host.clear();
  input.environment["JOB_COMPLETION_INDEX"] = "2";
  EXPECT_THAT(Error(input), StartsWith("--chief_host: is missing; name the pod"));
  input.job.reset();
  EXPECT_THAT(Error(input), StartsWith("--job_name: is missing; a pod's index"));
}

TEST(KubernetesTest, TheWorkerThatTheChiefsAddressNamesHostsTheChief) {
  ResolverInput input = Input("kubernetes", {{"JOB_COMPLETION_INDEX", "0"}});
  input.job = Job::kWorker;
  input.hostname = "train-worker-0";
  input.chief_host = "train-worker-0.train:2222";
  EXPECT_TRUE(Resolved(input).hosts_chief);
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:2222");
  input.chief_host = "train-chief-0.train:2222";
  EXPECT_FALSE(Resolved(input).hosts_chief);
}

TEST(KubernetesTest, AStatefulSetsPodsAreNumberedByTheirNames) {
  ResolverInput input = Input("kubernetes", {});
  input.job = Job::kPs;
  input.chief_host = "train-chief-0.train";
  input.hostname = "train-ps-11.train.ns.svc.cluster.local";
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 11}));
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:0");
  input.hostname = "train-ps";
  EXPECT_THAT(Error(input), StartsWith("--cluster_from: is kubernetes, but JOB_COMPLETION_INDEX"));
  input.task_index = 1;
  EXPECT_EQ(Resolved(input).task.index, 1u);
  input.job = Job::kChief;
  input.chief_host.clear();
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:2222");
}

TEST(JobSetTest, TheReplicatedJobIsTheJob) {
  ResolverInput input = Input("jobset", {{"JOBSET_NAME", "train"},
                                         {"REPLICATED_JOB_NAME", "ps"},
                                         {"JOB_INDEX", "0"},
                                         {"JOB_COMPLETION_INDEX", "1"},
                                         {"JOBSET_COORDINATOR", "train-chief-0-0.train"}});
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 1}));
  EXPECT_EQ(Resolved(input).chief_address, "train-chief-0-0.train:2222");
  input.environment.erase("JOBSET_COORDINATOR");
  EXPECT_EQ(Resolved(input).chief_address, "train-chief-0-0.train:2222");
  input.chief_port = 80;
  EXPECT_EQ(Resolved(input).chief_address, "train-chief-0-0.train:80");
  input.environment["JOB_INDEX"] = "2";
  EXPECT_THAT(Error(input), StartsWith("PODS_PER_JOB: is not set, but JOB_INDEX is 2"));
  input.environment["PODS_PER_JOB"] = "4";
  EXPECT_EQ(Resolved(input).task.index, 9u);
  input.job = Job::kWorker;
  EXPECT_THAT(Error(input), StartsWith("--job_name: is worker, but REPLICATED_JOB_NAME is ps"));
  input.job.reset();
  input.environment["REPLICATED_JOB_NAME"] = "node";
  EXPECT_THAT(Error(input), StartsWith("REPLICATED_JOB_NAME: job \"node\" is unknown"));
  input.job = Job::kWorker;
  EXPECT_EQ(Resolved(input).task.job, Job::kWorker);
}

TEST(JobSetTest, WorkerZeroThatIsTheCoordinatorHostsTheChief) {
  ResolverInput input = Input("jobset", {{"JOBSET_NAME", "train"},
                                         {"REPLICATED_JOB_NAME", "worker"},
                                         {"JOB_COMPLETION_INDEX", "0"},
                                         {"JOBSET_COORDINATOR", "train-worker-0-0.train"}});
  input.hostname = "train-worker-0-0";
  EXPECT_TRUE(Resolved(input).hosts_chief);
}

// The variables that Slurm 22.05 set for task 3 of five on three nodes.
Environment FlatSlurm() {
  return {{"SLURM_JOB_ID", "12345"},
          {"SLURM_PROCID", "3"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_NODELIST", "d[0-2]"},
          {"SLURM_JOB_NODELIST", "d[0-2]"},
          {"SLURM_TASKS_PER_NODE", "3,1(x2)"},
          {"SLURM_STEP_TASKS_PER_NODE", "3,1(x2)"},
          {"SLURM_DISTRIBUTION", "block"},
          {"SLURMD_NODENAME", "d1"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "1"}};
}

TEST(SlurmTest, AFlatStepFollowsTheRankRuleAndTheJobGivesThePort) {
  ResolverInput input = Input("slurm", FlatSlurm());
  input.num_ps_tasks = 2;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 0}));
  EXPECT_EQ(Resolved(input).chief_address, "d0:17345");
  EXPECT_EQ(Resolved(input).num_replicas, 3u);
  input.chief_port = 2220;
  EXPECT_EQ(Resolved(input).chief_address, "d0:2220");
  input.environment["SLURM_PROCID"] = "0";
  EXPECT_TRUE(Resolved(input).hosts_chief);
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:2220");
}

TEST(SlurmTest, AHeterogeneousStepIsCountedThrough) {
  Environment environment = FlatSlurm();
  environment["SLURM_HET_SIZE"] = "2";
  environment["SLURM_STEP_TASKS_PER_NODE"] = "2(x2),1";
  environment["SLURM_JOB_NODELIST_HET_GROUP_0"] = "d0";
  environment["SLURM_JOB_NODELIST_HET_GROUP_1"] = "d[1-2]";
  ResolverInput input = Input("slurm", environment);
  input.num_ps_tasks = 3;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 1}));
  EXPECT_EQ(Resolved(input).chief_address, "d0:17345");
}

TEST(SlurmTest, AMultiProgramStepNamesJobAndIndex) {
  ResolverInput input = Input("slurm", FlatSlurm());
  input.job = Job::kWorker;
  EXPECT_THAT(Error(input), HasSubstr("with srun --multi-prog write --task_index=%o"));
  input.task_index = 0;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kWorker, 0}));
  EXPECT_FALSE(Resolved(input).hosts_chief) << "process 0 is the chief";
}

TEST(SlurmTest, ErrorsNameTheCause) {
  const std::vector<std::vector<std::string>> cases = {
      {"SLURM_PROCID", "x", "SLURM_PROCID: a whole number"},
      {"SLURM_PROCID", "5", "SLURM_PROCID: is 5, but there are 5 processes"},
      {"SLURM_JOB_ID", "12_3", "SLURM_JOB_ID: a whole number"},
      {"SLURM_STEP_NODELIST", "d[0-2", "SLURM_STEP_NODELIST: \"d[0-2\" has a bracket"},
      {"SLURM_STEP_NODELIST", "d[0-1]", "SLURM_STEP_TASKS_PER_NODE: \"3,1(x2)\" is for 3 nodes"},
      {"SLURM_STEP_TASKS_PER_NODE", "3,1(y2)", "SLURM_STEP_TASKS_PER_NODE: \"3,1(y2)\" is not of"},
      {"SLURM_STEP_NUM_TASKS", "6", "SLURM_STEP_NUM_TASKS: is 6, but SLURM_STEP_TASKS_PER_NODE"},
      {"SLURM_DISTRIBUTION", "arbitrary", "--chief_host: is missing; with --distribution=arb"}};
  for (const std::vector<std::string>& row : cases) {
    Environment environment = FlatSlurm();
    environment[row[0]] = row[1];
    ResolverInput input = Input("slurm", environment);
    input.num_ps_tasks = 2;
    EXPECT_THAT(Error(input), StartsWith(row[2]));
  }
}

// The variables that Open MPI 4.1 set for rank 2 of `mpirun -n 1 A : -n 2 B`.
Environment TwoPartMpi() {
  return {{"OMPI_APP_CTX_NUM_PROCS", "1 2"},   {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "3"},       {"OMPI_FIRST_RANKS", "0 0"},
          {"OMPI_MCA_orte_app_num", "1"},      {"OMPI_NUM_APP_CTX", "2"},
          {"PMIX_NAMESPACE", "818479105"}};
}

TEST(MpiTest, APartOfTheCommandLineNumbersItsTasks) {
  ResolverInput input = Input("mpi", TwoPartMpi());
  input.job = Job::kPs;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 1}));
  EXPECT_EQ(Resolved(input).chief_address, "127.0.0.1:17490");
  EXPECT_EQ(Resolved(input).listen_address, "127.0.0.1:0");
}

TEST(MpiTest, TwoRunsOfMpirunOnAHostHaveTheirOwnPorts) {
  ResolverInput input = Input("mpi", TwoPartMpi());
  input.num_ps_tasks = 1;
  std::set<std::string> addresses;
  // Processes that follow one another; mpirun counts its jobs in the lower half.
  for (uint32_t family = 12000; family < 14000; ++family) {
    input.environment["PMIX_NAMESPACE"] = absl::StrCat((family << 16) + 1);
    addresses.insert(Resolved(input).chief_address);
  }
  EXPECT_EQ(addresses.size(), 2000u);
}

TEST(MpiTest, TheChiefItselfMayHaveItsHostWithoutAPort) {
  ResolverInput input = Input("auto", TwoPartMpi());
  input.environment["OMPI_COMM_WORLD_RANK"] = "0";
  input.environment["OMPI_MCA_orte_app_num"] = "0";
  input.environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  input.job = Job::kChief;
  input.chief_host = "n0";
  EXPECT_EQ(Resolved(input).source, ClusterSource::kMpi);
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:17490");
  input.job = Job::kWorker;
  input.task_index = 0;
  EXPECT_EQ(Resolved(input).chief_address, "n0:17490");
}

TEST(MpiTest, ARankIsAnIndexOnlyWhereAllProcessesAreOneProgram) {
  // Rank 2 of `mpirun -n 1 shoal chief : -n 2 shoal ps : -n 4 shoal worker`.
  Environment parts = TwoPartMpi();
  parts["OMPI_COMM_WORLD_SIZE"] = "7";
  parts["OMPI_NUM_APP_CTX"] = "3";
  parts["OMPI_APP_CTX_NUM_PROCS"] = "1 2 4";
  const struct {
    const char* parts;
    bool part_known;
    const char* want;
  } cases[] = {{"3", true, "\"index\": 1"},
               {"3", false, "--task_index: is missing"},
               {"1", false, "\"index\": 2"},
               {nullptr, false, "\"index\": 2"}};
  for (const auto& [number, part_known, want] : cases) {
    ResolverInput input = Input("mpi", parts);
    input.job = Job::kPs;
    input.chief_host = "n0:2222";
    if (!part_known) input.environment.erase("OMPI_MCA_orte_app_num");
    if (number == nullptr) input.environment.erase("OMPI_NUM_APP_CTX");
    if (number != nullptr) input.environment["OMPI_NUM_APP_CTX"] = number;
    EXPECT_THAT(Error(input), HasSubstr(want));
  }
}

TEST(MpiTest, WithoutJobsTheRankRuleHolds) {
  ResolverInput input = Input("mpi", TwoPartMpi());
  input.num_ps_tasks = 1;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 0}));
}

TEST(MpiTest, OnSeveralHostsTheChiefsHostMustBeNamed) {
  ResolverInput input = Input("mpi", TwoPartMpi());
  input.num_ps_tasks = 1;
  input.environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_THAT(Error(input), StartsWith("--chief_host: is missing; mpirun does not provide it"));
  input.chief_host = "n0";
  EXPECT_EQ(Resolved(input).chief_address, "n0:17490");
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:0");
}

TEST(MpiTest, ErrorsNameTheCause) {
  ResolverInput input = Input("mpi", TwoPartMpi());
  input.job = Job::kPs;
  input.environment["OMPI_APP_CTX_NUM_PROCS"] = "x 2";
  EXPECT_THAT(Error(input), StartsWith("OMPI_APP_CTX_NUM_PROCS: \"x 2\" has no number 0"));
  input.environment["OMPI_APP_CTX_NUM_PROCS"] = "3 1";
  EXPECT_THAT(Error(input), StartsWith("OMPI_APP_CTX_NUM_PROCS: \"3 1\" puts part 1 behind"));
  input.environment.erase("OMPI_COMM_WORLD_SIZE");
  EXPECT_THAT(Error(input), StartsWith("OMPI_COMM_WORLD_SIZE: is not set"));
}

TEST(TorchrunTest, ItAndMpirunLeaveTheirTasksBehindWhenTheyAreKilled) {
  EXPECT_TRUE(LauncherIsParent(TwoPartMpi()));
  EXPECT_TRUE(LauncherIsParent({{"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "0"}}));
  EXPECT_FALSE(LauncherIsParent({{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "n0"}}));
  EXPECT_FALSE(LauncherIsParent(FlatSlurm()));
}

TEST(TorchrunTest, TheChiefIsBesideMasterWhereTorchrunListensItself) {
  ResolverInput input = Input("torchrun", {{"LOCAL_RANK", "0"},
                                           {"RANK", "0"},
                                           {"WORLD_SIZE", "3"},
                                           {"MASTER_ADDR", "n0"},
                                           {"MASTER_PORT", "29500"},
                                           {"TORCHELASTIC_RUN_ID", "none"}});
  input.num_ps_tasks = 1;
  EXPECT_TRUE(Resolved(input).hosts_chief);
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:29501");
  // Any free port of torchrun's, whose neighbour may be a client's.
  input.environment["MASTER_PORT"] = "45013";
  EXPECT_EQ(Resolved(input).chief_address, "n0:20013");
  input.environment["MASTER_PORT"] = "29500";
  // On one host torchrun tells its name, by which others would reach it.
  input.environment["LOCAL_WORLD_SIZE"] = "3";
  EXPECT_EQ(Resolved(input).listen_address, "127.0.0.1:29501");
  input.environment["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:29501");
  // PyTorchJob: nobody else listens.
  input.environment.erase("TORCHELASTIC_RUN_ID");
  input.environment["RANK"] = "2";
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 0}));
  EXPECT_EQ(Resolved(input).chief_address, "n0:29500");
  input.environment["MASTER_ADDR"] = "fd00::2";
  EXPECT_EQ(Resolved(input).chief_address, "[fd00::2]:29500");
  input.environment["MASTER_PORT"] = "99999";
  EXPECT_THAT(Error(input), HasSubstr("has a port that is not a number"));
}

}  // namespace
}  // namespace shoal
