// Tests which source wins, the results of flags and lists, and the rank rule.
// launcher_sources_test.cc tests the launchers' own strings.
#include "runtime/cluster/task_resolver.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/cluster/expect_resolved_testing.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const Environment kSlurm = {{"SLURM_PROCID", "1"},
                            {"SLURM_JOB_ID", "7"},
                            {"SLURM_STEP_NODELIST", "d0"},
                            {"SLURM_STEP_NUM_TASKS", "3"}};
const Environment kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "m"}, {"MASTER_PORT", "29500"}};
const Environment kMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "3"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
const Environment kIndexedJob = {{"JOB_COMPLETION_INDEX", "1"}};
const Environment kTfConfig = {
    {"TF_CONFIG", R"({"cluster": {"ps": ["p:1"], "worker": ["w:1", "x:1"]},
                      "task": {"type": "worker", "index": 1}})"}};

ResolverInput Input(Environment environment = {}) {
  ResolverInput input;
  input.environment = std::move(environment);
  input.num_ps_tasks = 1;
  input.hostname = "vm";
  return input;
}

Environment Together(const std::vector<Environment>& parts) {
  Environment all;
  for (const Environment& part : parts) all.insert(part.begin(), part.end());
  return all;
}

TEST(TaskResolverTest, TheFirstSourceThatMatchesWins) {
  ResolverInput input = Input(Together({kSlurm, kTorchrun, kMpi, kIndexedJob, kTfConfig}));
  input.job = Job::kWorker;
  input.chief_host = "c:1";
  input.task_index = 1;
  EXPECT_EQ(Resolved(input).source, ClusterSource::kFlags);
  input.chief_host.clear();
  EXPECT_EQ(Resolved(input).source, ClusterSource::kTfConfig);
  input.environment.erase("TF_CONFIG");
  input.chief_host = "c:1";
  input.task_index.reset();
  EXPECT_EQ(Resolved(input).source, ClusterSource::kKubernetes);
  input.environment["JOBSET_NAME"] = "train";
  input.environment["REPLICATED_JOB_NAME"] = "worker";
  EXPECT_EQ(Resolved(input).source, ClusterSource::kJobSet);
  input.environment.erase("JOB_COMPLETION_INDEX");
  EXPECT_EQ(Resolved(input).source, ClusterSource::kMpi);
  input.environment.erase("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(Resolved(input).source, ClusterSource::kTorchrun);
  input.environment.erase("RANK");
  input.job.reset();
  EXPECT_EQ(Resolved(input).source, ClusterSource::kSlurm);
  input.job = Job::kWorker;
  // The variables of a batch script, which is not a step.
  input.environment.erase("SLURM_STEP_NODELIST");
  EXPECT_THAT(Error(input), StartsWith("--task_index: is missing; say which task of job worker"));
  input.hostname = "train-worker-4.train";
  EXPECT_THAT(Error(input), StartsWith("--task_index: is missing")) << "outside Kubernetes";
  input.environment["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  EXPECT_EQ(Resolved(input).source, ClusterSource::kKubernetes);
  EXPECT_EQ(Resolved(input).task.index, 4u);
}

TEST(TaskResolverTest, ASourceCanBeForced) {
  ResolverInput input = Input(Together({kSlurm, kTorchrun, kTfConfig}));
  for (const char* name : {"slurm", "torchrun", "tf_config"}) {
    input.from = *ParseClusterSource(name);
    EXPECT_EQ(ClusterSourceName(Resolved(input).source), name);
  }
}

TEST(TaskResolverTest, AForcedSourceThatDoesNotMatchNamesWhatIsMissing) {
  const std::pair<const char*, const char*> cases[] = {
      {"file", "--cluster_from: is file, but --cluster is not given"},
      {"tf_config", "--cluster_from: is tf_config, but TF_CONFIG is not set"},
      {"jobset", "--cluster_from: is jobset, but JOBSET_NAME, REPLICATED_JOB_NAME or"},
      {"kubernetes", "--cluster_from: is kubernetes, but JOB_COMPLETION_INDEX is not set and"},
      {"mpi", "--cluster_from: is mpi, but OMPI_COMM_WORLD_RANK is not set"},
      {"torchrun", "--cluster_from: is torchrun, but RANK, WORLD_SIZE or MASTER_ADDR"},
      {"slurm", "--cluster_from: is slurm, but SLURM_PROCID, SLURM_JOB_ID or"},
      {"flags", "--job_name: is missing"}};
  for (const auto& [name, message] : cases) {
    ResolverInput input = Input();
    input.from = *ParseClusterSource(name);
    EXPECT_THAT(Error(input), StartsWith(message));
  }
  EXPECT_THAT(std::string(ParseClusterSource("k8s").status().message()),
              StartsWith("--cluster_from: \"k8s\" is unknown; it is one of auto, flags, file"));
}

TEST(TaskResolverTest, NothingToGoByIsAnErrorThatNamesTheVariables) {
  EXPECT_THAT(Error(Input()), StartsWith("--job_name: is missing, and no launcher's variables"));
  EXPECT_THAT(Error(Input({{"TF_CONFIG", "{}"}})), StartsWith("--job_name: is missing"));
  ResolverInput file = Input();
  file.cluster_file = "/nowhere";
  file.job = Job::kPs;
  EXPECT_THAT(Error(file), HasSubstr("/nowhere"));
  file.chief_host = "c:1";
  EXPECT_THAT(Error(file), StartsWith("--cluster: is given together with"));
}

TEST(TaskResolverTest, ALauncherThatSetOnlySomeOfItsVariablesGetsTheMissingOnes) {
  const std::pair<Environment, const char*> cases[] = {
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       "--job_name: is missing, and RANK and WORLD_SIZE are set, but MASTER_ADDR is not: start the "
       "task with torchrun --no-python"},
      {{{"SLURM_PROCID", "0"}},
       "--job_name: is missing, and SLURM_PROCID is set, but SLURM_JOB_ID and SLURM_STEP_NODELIST "
       "are not: start the task with srun"},
      {{{"JOBSET_NAME", "train"}, {"MASTER_ADDR", "a"}},
       "--job_name: is missing, and JOBSET_NAME is set, but REPLICATED_JOB_NAME and "
       "JOB_COMPLETION_INDEX are not: take them from the pod's labels and annotations; MASTER_ADDR "
       "is set, but RANK and WORLD_SIZE are not: start the task with torchrun --no-python"}};
  for (const auto& [environment, message] : cases) EXPECT_EQ(Error(Input(environment)), message);
}

TEST(TaskResolverTest, HostListsPlaceATaskAndItsChief) {
  ResolverInput input = Input(kSlurm);
  input.ps_hosts = "a:1,b:2";
  input.worker_hosts = "c:1,d:1";
  input.job = Job::kWorker;
  input.task_index = 0;
  const ResolvedTask host = Resolved(input);
  EXPECT_TRUE(host.hosts_chief);
  EXPECT_EQ(host.listen_address, "c:1");
  input.task_index = 1;
  const ResolvedTask other = Resolved(input);
  EXPECT_FALSE(other.hosts_chief);
  EXPECT_EQ(other.chief_address, "c:1");
  EXPECT_EQ(other.listen_address, "d:1");  // Its health.
  input.job = Job::kPs;
  EXPECT_EQ(Resolved(input).own_address, "b:2");
  input.job = Job::kEvaluator;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kEvaluator, 1}));
}

TEST(TaskResolverTest, APsThatKnowsTheChiefAloneServesAtAnyPort) {
  ResolverInput input = Input();
  input.job = Job::kPs;
  input.task_index = 2;
  input.chief_host = "c:1";
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:0");
  EXPECT_EQ(Resolved(input).own_address, "");
  input.chief_host = "127.0.0.1:2220";
  EXPECT_EQ(Resolved(input).listen_address, "127.0.0.1:0");
  input.chief_host = "c";
  input.chief_port = 80;
  EXPECT_EQ(Resolved(input).chief_address, "c:80");
  input.chief_host = "c:1";
  EXPECT_THAT(Error(input), StartsWith("--chief_port: is given, but --chief_host=c:1 has a port"));
  input.chief_host.clear();
  input.job = Job::kChief;
  input.task_index.reset();
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:80");
}

TEST(RankRuleTest, TheFirstRanksAreWorkersAndTheLastArePs) {
  ResolverInput input = Input(kTorchrun);
  input.num_ps_tasks = 2;
  input.environment["WORLD_SIZE"] = "5";
  const TaskId expected[] = {
      {Job::kWorker, 0}, {Job::kWorker, 1}, {Job::kWorker, 2}, {Job::kPs, 0}, {Job::kPs, 1}};
  for (uint32_t rank = 0; rank < 5; ++rank) {
    input.environment["RANK"] = std::to_string(rank);
    const ResolvedTask task = Resolved(input);
    EXPECT_EQ(task.task, expected[rank]);
    EXPECT_EQ(task.hosts_chief, rank == 0);
    EXPECT_EQ(task.num_ps_tasks, 2u);
    EXPECT_EQ(task.num_replicas, 3u);
  }
}

TEST(RankRuleTest, NumbersThatDoNotGoTogetherAreRefused) {
  ResolverInput input = Input(kTorchrun);
  input.num_ps_tasks = 3;
  EXPECT_THAT(Error(input), StartsWith("--num_ps_tasks: is 3, but 3 processes were started"));
  input.num_ps_tasks = 0;
  EXPECT_THAT(Error(input), StartsWith("--num_ps_tasks: is 0, but 3 processes were started"));
  input.num_ps_tasks.reset();
  EXPECT_THAT(Error(input), StartsWith("--num_ps_tasks: is missing; say how many of the 3"));
  input.num_ps_tasks = 1;
  input.num_replicas = 4;
  EXPECT_THAT(Error(input), StartsWith("--num_replicas: is 4, but 3 processes and num_ps_tasks=1"));
  input.num_replicas = 2;
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kWorker, 1}));
  input.environment["RANK"] = "3";
  EXPECT_THAT(Error(input), StartsWith("RANK: is 3, but there are 3 processes"));
  input.environment["RANK"] = "-1";
  EXPECT_THAT(Error(input), StartsWith("RANK: a whole number >= 0 is wanted, not \"-1\""));
}

TEST(RankRuleTest, WithAJobTheFirstProcessIsTheChiefOrHostsIt) {
  ResolverInput input = Input(kSlurm);
  input.environment["SLURM_PROCID"] = "0";
  input.job = Job::kChief;
  const ResolvedTask chief = Resolved(input);
  EXPECT_EQ(chief.listen_address, "0.0.0.0:15007");
  EXPECT_EQ(chief.chief_address, "");
  input.job = Job::kWorker;
  input.task_index = 0;
  EXPECT_TRUE(Resolved(input).hosts_chief);
  input.environment["SLURM_PROCID"] = "1";
  EXPECT_FALSE(Resolved(input).hosts_chief);
  EXPECT_EQ(Resolved(input).chief_address, "d0:15007");
  input.job = Job::kChief;
  EXPECT_THAT(Error(input), HasSubstr("the chief is process 1; start it first"));
  input.environment["SLURM_PROCID"] = "0";
  input.job = Job::kPs;
  EXPECT_THAT(Error(input), HasSubstr("the first process, where the others look for the chief, is "
                                      "ps/0; start the chief or worker 0 first"));
  input.from = ClusterSource::kSlurm;
  input.chief_host = "elsewhere";
  EXPECT_EQ(Resolved(input).chief_address, "elsewhere:15007");
  input.task_index.reset();
  input.environment["SLURM_PROCID"] = "2";
  EXPECT_THAT(Error(input), HasSubstr("--task_index=%o")) << "it may be one of --multi-prog";
  input.chief_host.clear();
  EXPECT_THAT(Error(input), HasSubstr("--task_index=%o"));
}

TEST(RankRuleTest, Worker0HostsTheChiefOnlyWhereTheOthersLookForIt) {
  const struct {
    bool job_named;
    const char* chief_host;
    bool hosts_chief;
  } cases[] = {{true, "", true},
               {true, "elsewhere", false},
               {true, "elsewhere:2222", false},
               {true, "10.0.0.1:2222", false},
               {true, "vm", true},
               {true, "vm.cluster:2222", true},
               {false, "", true},
               {false, "alias_of_vm", true}};
  for (const auto& [job_named, chief_host, hosts_chief] : cases) {
    for (ResolverInput input : {Input(kSlurm), Input(kTorchrun), Input(kMpi)}) {
      const ClusterSource source = Resolved(input).source;
      input.from = source;
      for (const char* rank : {"SLURM_PROCID", "RANK", "OMPI_COMM_WORLD_RANK"}) {
        if (input.environment.count(rank) > 0) input.environment[rank] = "0";
      }
      if (job_named) input.job = Job::kWorker;
      if (job_named) input.task_index = 0;
      input.chief_host = chief_host;
      const ResolvedTask resolved = Resolved(input);
      EXPECT_EQ(resolved.hosts_chief, hosts_chief)
          << ClusterSourceName(source) << " --chief_host=" << chief_host;
      EXPECT_EQ(resolved.listen_address.empty(), !hosts_chief);
    }
  }
}

TEST(RankRuleTest, AStepOfOneJobWhoseChiefIsElsewhereIsNumberedByItsRanks) {
  ResolverInput input = Input(kTorchrun);
  input.job = Job::kPs;
  input.chief_host = "elsewhere:2222";
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 1}));
}

TEST(TaskResolverTest, TheClusterIsOneLineOfJson) {
  ResolverInput input = Input(kTfConfig);
  EXPECT_EQ(ToJson(Resolved(input)),
            R"({"source": "tf_config", "job": "worker", "index": 1, "chief": "w:1", "own": "x:1", )"
            R"("listen": "0.0.0.0:1", "ps": "p:1", "workers": "w:1,x:1"})");
}

}  // namespace
}  // namespace shoal
