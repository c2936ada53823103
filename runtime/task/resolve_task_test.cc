#include "runtime/task/resolve_task.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/config/flags.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<TaskOptions> Resolve(Job job, std::vector<std::string> args) {
  args.insert(args.begin(), {"--model=mlp", "--num_epochs=1", "--out=runs/a"});
  absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTask, args);
  if (!line.ok()) return line.status();
  return ResolveTask(job, *line, {"/home/me", "vm", {}});
}

TaskOptions Resolved(Job job, const std::vector<std::string>& args) {
  absl::StatusOr<TaskOptions> options = Resolve(job, args);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : TaskOptions();
}

std::string Error(Job job, const std::vector<std::string>& args) {
  return std::string(Resolve(job, args).status().message());
}

TEST(ResolveTaskTest, HostListsAreSufficient) {
  const std::vector<std::string> hosts = {"--ps_hosts=a:1,b:2", "--worker_hosts=c:1,d:1",
                                          "--chief_host=e:5"};
  std::vector<std::string> args = hosts;
  args.push_back("--task_index=1");
  const TaskOptions ps = Resolved(Job::kPs, args);
  EXPECT_EQ(ps.task, (TaskId{Job::kPs, 1}));
  EXPECT_EQ(ps.listen_address, "b:2");
  EXPECT_EQ(ps.advertised_address, "b:2");
  EXPECT_EQ(ps.chief_address, "e:5");
  EXPECT_EQ(ps.run.deployment().num_ps_tasks(), 2u);
  EXPECT_EQ(ps.run.deployment().num_replicas(), 2u);
  EXPECT_EQ(ps.run.out(), "/home/me/runs/a");
  const TaskOptions worker = Resolved(Job::kWorker, args);
  EXPECT_EQ(worker.run.deployment().replica_id(), 1u);
  EXPECT_FALSE(worker.hosts_chief);
  EXPECT_EQ(worker.listen_address, "d:1");  // Its health.
  const TaskOptions chief = Resolved(Job::kChief, hosts);
  EXPECT_EQ(chief.listen_address, "e:5");
  EXPECT_EQ(chief.chief_address, "");
}

TEST(ResolveTaskTest, TheChiefsAddressIsEnoughForTheOthers) {
  const TaskOptions worker = Resolved(
      Job::kWorker, {"--num_ps_tasks=1", "--num_replicas=2", "--chief_host=e:5", "--task_index=1"});
  EXPECT_EQ(worker.chief_address, "e:5");
  EXPECT_EQ(worker.listen_address, "");
  const TaskOptions ps =
      Resolved(Job::kPs, {"--num_ps_tasks=1", "--chief_host=e:5", "--task_index=0",
                          "--listen_address=127.0.0.1:0", "--report_fd=3"});
  EXPECT_EQ(ps.listen_address, "127.0.0.1:0");
  EXPECT_EQ(ps.report_fd, 3);
}

TEST(ResolveTaskTest, NumbersOfTasksAreLeftToTheChief) {
  const TaskOptions worker = Resolved(Job::kWorker, {"--chief_host=e:5", "--task_index=1"});
  EXPECT_EQ(worker.given_num_ps_tasks, 0u);
  EXPECT_EQ(worker.given_num_replicas, 0u);
  const TaskOptions ps = Resolved(
      Job::kPs, {"--chief_host=e:5", "--task_index=3", "--listen_address=a:1", "--num_replicas=2"});
  EXPECT_EQ(ps.given_num_ps_tasks, 0u);
  EXPECT_EQ(ps.given_num_replicas, 2u);
  // A list of workers says nothing about ps.
  const TaskOptions listed =
      Resolved(Job::kWorker, {"--chief_host=e:5", "--task_index=1", "--worker_hosts=a:1,b:1"});
  EXPECT_EQ(listed.given_num_replicas, 2u);
}

TEST(ResolveTaskTest, APsIsDialedAtItsClusterAddressNotWhereItListens) {
  const TaskOptions listed =
      Resolved(Job::kPs, {"--ps_hosts=a:1", "--chief_host=e:5", "--listen_address=0.0.0.0:1"});
  EXPECT_EQ(listed.listen_address, "0.0.0.0:1");
  EXPECT_EQ(listed.advertised_address, "a:1");
  const std::vector<std::string> given = {"--num_ps_tasks=1", "--chief_host=e:5", "--task_index=0"};
  const auto with = [&given](const std::string& flag) {
    std::vector<std::string> args = given;
    args.push_back(flag);
    return args;
  };
  // The address toward the chief, found at run time.
  EXPECT_EQ(Resolved(Job::kPs, given).listen_address, "0.0.0.0:0");
  EXPECT_EQ(Resolved(Job::kPs, with("--listen_address=[::]:1")).advertised_address, "");
  EXPECT_EQ(Resolved(Job::kPs, with("--advertise=b")).advertised_address, "b:0");
  EXPECT_EQ(Resolved(Job::kPs, with("--advertise=b:7")).advertised_address, "b:7");
  EXPECT_THAT(Error(Job::kPs, with("--advertise=b:x")), StartsWith("--advertise: \"b:x:0\" has a"));
}

TEST(ResolveTaskTest, APodIsDialedAtItsAddress) {
  const auto line = ParseCommandLine(
      kScopeTask, {"--model=mlp", "--num_epochs=1", "--out=a", "--num_ps_tasks=1",
                   "--chief_host=e:5", "--task_index=0", "--listen_address=0.0.0.0:2222"});
  ASSERT_TRUE(line.ok()) << line.status();
  const auto advertised = [&line](const std::string& pod_ip) {
    return ResolveTask(Job::kPs, *line, {"/", "pod", {{"POD_IP", pod_ip}}})->advertised_address;
  };
  EXPECT_EQ(advertised("10.1.2.3"), "10.1.2.3:2222");
  EXPECT_THAT(ResolveTask(Job::kPs, *line, {"/", "pod", {}})->place,
              HasSubstr("\"listen\": \"0.0.0.0:2222\""));
  EXPECT_EQ(advertised("fd00::3"), "[fd00::3]:2222");
}

TEST(ResolveTaskTest, ALaunchersVariablesIdentifyTheTask) {
  const auto resolve = [](const Environment& environment) {
    const auto line = ParseCommandLine(
        kScopeTask, {"--model=mlp", "--num_epochs=1", "--out=a", "--num_ps_tasks=1"});
    EXPECT_TRUE(line.ok()) << line.status();
    return ResolveTask(std::nullopt, *line, {"/", "vm", environment});
  };
  Environment environment = {
      {"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "m"}, {"MASTER_PORT", "29500"}};
  const auto worker = resolve(environment);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->task, (TaskId{Job::kWorker, 0}));
  EXPECT_TRUE(worker->hosts_chief);
  EXPECT_EQ(worker->run.deployment().num_replicas(), 2u);
  EXPECT_EQ(worker->place.substr(0, 24), "{\"source\": \"torchrun\", \"");
  environment["RANK"] = "2";
  const auto ps = resolve(environment);
  ASSERT_TRUE(ps.ok()) << ps.status();
  EXPECT_EQ(ps->task, (TaskId{Job::kPs, 0}));
  EXPECT_EQ(ps->chief_address, "m:29500");
  EXPECT_EQ(ps->given_num_replicas, 2u);
  EXPECT_THAT(std::string(resolve({}).status().message()), StartsWith("--job_name: is missing"));
}

TEST(ResolveTaskTest, AWorkerKnowsItsNumberAmongThoseOfItsHost) {
  const auto place = [](std::optional<Job> job, std::vector<std::string> args,
                        const Environment& environment) -> std::string {
    args.insert(args.end(), {"--model=mlp", "--num_epochs=1", "--out=a", "--num_ps_tasks=1",
                             "--num_replicas=3", "--chief_host=e:5"});
    const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTask, args);
    EXPECT_TRUE(line.ok()) << line.status();
    const auto options = ResolveTask(job, *line, {"/", "vm", environment});
    EXPECT_TRUE(options.ok()) << options.status();
    if (!options.ok() || !options->local_worker.has_value()) return "";
    return absl::StrCat(options->local_worker->index,
                        options->local_worker->is_exact ? "" : " or more");
  };
  Environment slurm = {{"SLURM_PROCID", "2"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_JOB_ID", "7"},
                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                       {"SLURM_STEP_NUM_TASKS", "4"}};
  EXPECT_EQ(place(std::nullopt, {}, slurm), "1");
  EXPECT_EQ(place(Job::kWorker, {"--task_index=2"}, slurm), "1 or more");
  EXPECT_EQ(place(Job::kWorker, {"--task_index=2", "--local_worker=0"}, slurm), "0");
  EXPECT_EQ(place(Job::kWorker, {"--task_index=2"}, {}), "");
  slurm["SLURM_PROCID"] = "3";
  EXPECT_EQ(place(std::nullopt, {}, slurm), "") << "a ps";
}

TEST(ResolveTaskTest, Worker0HostsTheChiefOfAClusterWithoutOne) {
  const std::vector<std::string> hosts = {"--ps_hosts=a:1", "--worker_hosts=c:1,d:1"};
  std::vector<std::string> args = hosts;
  args.push_back("--replica_id=0");
  const TaskOptions first = Resolved(Job::kWorker, args);
  EXPECT_TRUE(first.hosts_chief);
  EXPECT_EQ(first.listen_address, "c:1");
  args.back() = "--replica_id=1";
  const TaskOptions second = Resolved(Job::kWorker, args);
  EXPECT_FALSE(second.hosts_chief);
  EXPECT_EQ(second.chief_address, "c:1");
  EXPECT_EQ(second.task.index, 1u);
}

TEST(ResolveTaskTest, ContradictionsNameBothSides) {
  EXPECT_THAT(Error(Job::kPs, {"--job_name=worker"}), StartsWith("--job_name: is worker, but"));
  EXPECT_THAT(Error(Job::kPs, {"--job_name=boss"}), StartsWith("job \"boss\" is unknown"));
  EXPECT_THAT(Error(Job::kPs, {"--ps_hosts=a:1,b:1", "--chief_host=c:1"}),
              StartsWith("--task_index: is missing; say which task of job ps"));
  EXPECT_THAT(Error(Job::kPs, {"--ps_hosts=a:1,b:1", "--chief_host=c:1", "--task_index=2"}),
              StartsWith("task_index: the cluster has no ps/2; job ps has 2 tasks"));
  EXPECT_THAT(Error(Job::kPs, {"--num_ps_tasks=2", "--chief_host=c:1", "--task_index=2",
                               "--listen_address=a:1"}),
              StartsWith("--task_index: is 2, but num_ps_tasks is 2"));
  EXPECT_THAT(Error(Job::kWorker,
                    {"--num_ps_tasks=1", "--num_replicas=2", "--chief_host=c:1", "--task_index=2"}),
              StartsWith("replica_id: replica_id must be less than num_replicas"));
  EXPECT_THAT(Error(Job::kWorker, {"--chief_host=c:1", "--task_index=1", "--replica_id=0"}),
              StartsWith("--replica_id: is 0, but --task_index is 1"));
  EXPECT_THAT(Error(Job::kWorker, {"--task_index=0"}), StartsWith("--chief_host: is missing"));
  EXPECT_THAT(Error(Job::kChief, {}), StartsWith("--listen_address: is missing"));
  EXPECT_THAT(Error(Job::kChief, {"--task_index=1"}), StartsWith("--task_index: is 1; the only"));
  EXPECT_THAT(Error(Job::kChief, {"--listen_address=here"}),
              StartsWith("--listen_address: \"here\" has no port"));
  EXPECT_THAT(Error(Job::kChief, {"--cluster=/nowhere", "--chief_host=c:1"}),
              StartsWith("--cluster: is given together with"));
  EXPECT_THAT(Error(Job::kChief, {"--cluster=/nowhere"}), StartsWith("cluster: cannot read"));
  EXPECT_THAT(Error(Job::kChief, {"--listen_address=a:1", "--set=out="}),
              StartsWith("--out: is missing"));
  EXPECT_THAT(Error(Job::kChief, {"extra"}), StartsWith("extra: is not a flag"));
  EXPECT_THAT(Error(Job::kPs, {"--ps_hosts=a:1,b:1", "--num_ps_tasks=1", "--chief_host=c:1",
                               "--task_index=0"}),
              StartsWith("num_ps_tasks: is 1, but ps_hosts names 2 tasks"));
}

TEST(ResolveTaskTest, ATaskWithoutARunFileNamesTheFlag) {
  for (const Job job : {Job::kChief, Job::kPs, Job::kWorker, Job::kEvaluator}) {
    for (const std::vector<std::string>& args :
         {std::vector<std::string>(), std::vector<std::string>{"--out=runs/a"}}) {
      const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTask, args);
      ASSERT_TRUE(line.ok()) << line.status();
      EXPECT_THAT(std::string(ResolveTask(job, *line, {"/home/me", "vm", {}}).status().message()),
                  StartsWith("--run: is missing; name a run file"));
    }
  }
}

TEST(ResolveTaskTest, ChiefAndPsNeedNoModel) {
  const auto resolve = [](Job job, ModelFrom model) {
    const absl::StatusOr<CommandLine> line = ParseCommandLine(
        kScopeTask, {"--num_epochs=1", "--out=a", "--num_ps_tasks=1", "--chief_host=e:5",
                     "--task_index=0", "--listen_address=e:5"});
    EXPECT_TRUE(line.ok()) << line.status();
    return ResolveTask(job, *line, {"/home/me", "vm", {}}, model).status();
  };
  EXPECT_EQ(resolve(Job::kChief, ModelFrom::kRunFile), absl::OkStatus());
  EXPECT_EQ(resolve(Job::kPs, ModelFrom::kRunFile), absl::OkStatus());
  EXPECT_THAT(std::string(resolve(Job::kWorker, ModelFrom::kRunFile).message()),
              StartsWith("model: is not given"));
  EXPECT_EQ(resolve(Job::kWorker, ModelFrom::kElsewhere), absl::OkStatus());
}

TEST(ResolveTaskTest, SettingsMayBeLeftToAProgram) {
  std::vector<std::string> args = {"--program=a.py",   "--out=a",        "--num_ps_tasks=1",
                                   "--chief_host=e:5", "--task_index=0", "--listen_address=e:5"};
  const auto resolve = [&args](Job job) {
    const absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTask, args);
    EXPECT_TRUE(line.ok()) << line.status();
    return ResolveTask(job, *line, {"/home/me", "vm", {}});
  };
  for (const Job job : {Job::kChief, Job::kPs, Job::kWorker}) {
    const absl::StatusOr<TaskOptions> options = resolve(job);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->run.program().file(), "/home/me/a.py");
    EXPECT_EQ(options->run.num_epochs(), 0u);
    ASSERT_TRUE(options->given.has_value());
    EXPECT_FALSE(options->given->has_batch_size());
  }
  args.insert(args.end(), {"--optimizer=adam", "--learning_rate=0.1", "--batch_size=8"});
  EXPECT_TRUE(resolve(Job::kChief)->given.has_value());
  args.push_back("--max_steps=3");
  EXPECT_FALSE(resolve(Job::kChief)->given.has_value());
}

}  // namespace
}  // namespace shoal
