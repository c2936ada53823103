// Tests TF_CONFIG as operators really set it, and malformed ones.
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/cluster/expect_resolved_testing.h"
#include "runtime/cluster/task_resolver.h"

namespace shoal {
namespace {

using ::testing::StartsWith;

ResolverInput TfConfig(const std::string& text) {
  ResolverInput input;
  input.from = *ParseClusterSource("tf_config");
  input.environment = {{"TF_CONFIG", text}};
  input.hostname = "vm";
  return input;
}

// A TF_CONFIG of this task in a cluster of a chief, two workers and two ps.
std::string Dense(const std::string& task) {
  return R"({"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222", "host2:2222"],
             "ps": ["host3:2222", "host4:2222"]}, "task": )" +
         task +
         R"(, "environment": "cloud", "rpc_layer": "grpc", "job": {"x": [1]}, "trial": "1"})";
}

TEST(TfConfigTest, ATaskOfADenseClusterServesAtItsPortOfEveryAddress) {
  const ResolvedTask ps = Resolved(TfConfig(Dense(R"({"type": "ps", "index": 1})")));
  EXPECT_EQ(ps.task, (TaskId{Job::kPs, 1}));
  EXPECT_EQ(ps.own_address, "host4:2222");
  EXPECT_EQ(ps.listen_address, "0.0.0.0:2222");
  EXPECT_EQ(ps.chief_address, "host0:2222");
  EXPECT_EQ(ps.cluster.ps().size(), 2u);
  const ResolvedTask worker = Resolved(TfConfig(Dense(R"({"type": "worker", "index": 0})")));
  EXPECT_FALSE(worker.hosts_chief);
  EXPECT_EQ(worker.own_address, "host1:2222");
  EXPECT_EQ(worker.listen_address, "0.0.0.0:2222");  // Its health.
  const ResolvedTask chief = Resolved(TfConfig(Dense(R"({"type": "chief", "index": 0})")));
  EXPECT_EQ(chief.listen_address, "0.0.0.0:2222");
  EXPECT_EQ(chief.chief_address, "");
}

TEST(TfConfigTest, AnIndexMayBeText) {
  EXPECT_EQ(Resolved(TfConfig(Dense(R"({"type": "worker", "index": "1"})"))).task.index, 1u);
}

TEST(TfConfigTest, WithoutAChiefWorker0HostsIt) {
  const std::string cluster = R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}, "task": )";
  const ResolvedTask first = Resolved(TfConfig(cluster + R"({"type": "worker", "index": 0}})"));
  EXPECT_TRUE(first.hosts_chief);
  EXPECT_EQ(first.listen_address, "0.0.0.0:1");
  EXPECT_EQ(Resolved(TfConfig(cluster + R"({"type": "ps", "index": 0}})")).chief_address, "a:1");
}

TEST(TfConfigTest, MasterIsTheOldNameOfTheChief) {
  const std::string text = R"({"cluster": {"master": ["m:1"], "ps": ["p:1"], "worker": ["w:1"]},
                               "task": {"type": "master", "index": 0}})";
  EXPECT_EQ(Resolved(TfConfig(text)).task.job, Job::kChief);
  EXPECT_EQ(Resolved(TfConfig(text)).listen_address, "0.0.0.0:1");
}

TEST(TfConfigTest, AnEvaluatorIsThereListedOrNot) {
  EXPECT_EQ(Resolved(TfConfig(Dense(R"({"type": "evaluator", "index": 0})"))).task,
            (TaskId{Job::kEvaluator, 0}));
  const std::string listed = R"({"cluster": {"chief": ["c:1"], "ps": ["p:1"], "worker": ["w:1"],
      "evaluator": ["e:1"]}, "task": {"type": "worker", "index": 0}})";
  EXPECT_EQ(Resolved(TfConfig(listed)).cluster.ToText().find("evaluator"), std::string::npos);
}

TEST(TfConfigTest, TFJobsSparseFormListsATaskAndWhatItCalls) {
  // TFJob writes this with enableDynamicWorker.
  const std::string ps = R"({"cluster":{"worker":{},"ps":["job-ps-1.ns.svc:2222"]},
                             "task":{"type":"ps","index":1}})";
  ResolverInput input = TfConfig(ps);
  EXPECT_THAT(Error(input), StartsWith("--chief_host: is missing; TF_CONFIG lists only some"));
  input.chief_host = "job-worker-0.ns.svc:2222";
  EXPECT_EQ(Resolved(input).task, (TaskId{Job::kPs, 1}));
  EXPECT_EQ(Resolved(input).own_address, "job-ps-1.ns.svc:2222");
  EXPECT_EQ(Resolved(input).listen_address, "0.0.0.0:2222");
  const std::string worker =
      R"({"cluster":{"worker":{"I":"job-worker-I.ns.svc:2222"},"ps":["p:1","q:1"]},
          "task":{"type":"worker","index":I}})";
  const auto of_worker = [&worker](char index) {
    std::string text = worker;
    for (char& c : text) c = c == 'I' ? index : c;
    return text;
  };
  EXPECT_TRUE(Resolved(TfConfig(of_worker('0'))).hosts_chief);
  input = TfConfig(of_worker('3'));
  input.chief_host = "job-worker-0.ns.svc:2222";
  EXPECT_EQ(Resolved(input).task.index, 3u);
  EXPECT_EQ(Resolved(input).chief_address, "job-worker-0.ns.svc:2222");
  EXPECT_FALSE(Resolved(input).hosts_chief);
}

TEST(TfConfigTest, TheSparseFormIsCalledSparseCluster) {
  const struct {
    const char* text;
    TaskId task;
    const char* own;
    bool hosts_chief;
  } cases[] = {{R"({"sparseCluster":{"worker":{"1":"host:2222"},"ps":["p:2222"]},
           "task":{"type":"worker","index":1}})",
                {Job::kWorker, 1},
                "host:2222",
                false},
               {R"({"sparseCluster":{"worker":{"0":"host:2222"},"ps":["p:2222","q:2222"]},
           "task":{"type":"worker","index":0}})",
                {Job::kWorker, 0},
                "host:2222",
                true},
               {R"({"sparseCluster":{"worker":{},"ps":["q:2222"]},"task":{"type":"ps","index":1}})",
                {Job::kPs, 1},
                "q:2222",
                false},
               {R"({"sparseCluster":{"ps":["q:2222"]},"task":{"type":"ps","index":1}})",
                {Job::kPs, 1},
                "q:2222",
                false}};
  for (const auto& [text, task, own, hosts_chief] : cases) {
    ResolverInput input = TfConfig(text);
    if (!hosts_chief) input.chief_host = "host0:2222";
    const ResolvedTask resolved = Resolved(input);
    EXPECT_EQ(resolved.task, task);
    EXPECT_EQ(resolved.own_address, own);
    EXPECT_EQ(resolved.hosts_chief, hosts_chief);
    EXPECT_EQ(resolved.chief_address, hosts_chief ? "host:2222" : "host0:2222");
  }
}

TEST(TfConfigTest, IPv6AddressesAreInBrackets) {
  const std::string text = R"({"cluster": {"chief": ["[::1]:2222"], "ps": ["[fd00::2]:2222"]},
                               "task": {"type": "ps", "index": 0}})";
  EXPECT_EQ(Resolved(TfConfig(text)).chief_address, "[::1]:2222");
}

TEST(TfConfigTest, ErrorsNameTheCause) {
  const std::string task = R"("task": {"type": "ps", "index": 0}})";
  const std::pair<std::string, const char*> cases[] = {
      {"{", "TF_CONFIG: is not a JSON object"},
      {"[1]", "TF_CONFIG: is not a JSON object"},
      {"\"x\"", "TF_CONFIG: is not a JSON object"},
      {"{\"a\": 1}", "TF_CONFIG: has no object \"task\""},
      {"{" + task, "TF_CONFIG: has no object \"cluster\""},
      {R"({"cluster": {"ps": ["a:1"], "chief": ["b:1"], "wrker": ["c:1"]}, )" + task,
       "TF_CONFIG: cluster: job \"wrker\" is unknown; it is one of chief, ps, worker, evaluator"},
      {R"({"sparseCluster": {"ps": ["a:1"], "wrker": {"0": "c:1"}}, )" + task,
       "TF_CONFIG: cluster: job \"wrker\" is unknown; it is one of chief, ps, worker, evaluator"},
      {"{\"cluster\": [], " + task, "TF_CONFIG: has no object \"cluster\""},
      {R"({"cluster": {"ps": "a:1"}, )" + task, "TF_CONFIG: cluster.ps is neither"},
      {R"({"cluster": {"ps": [1]}, )" + task, "TF_CONFIG: cluster.ps[0]: is not text"},
      {R"({"cluster": {"ps": ["a"]}, )" + task, "TF_CONFIG: cluster.ps[0]: \"a\" has no port"},
      {R"({"cluster": {"ps": ["::1:2222"]}, )" + task,
       "TF_CONFIG: cluster.ps[0]: \"::1:2222\" has"},
      {R"({"cluster": {"ps": {"x": "a:1"}}, )" + task,
       "TF_CONFIG: cluster.ps: \"x\" is not an index"},
      {R"({"cluster": {"ps": ["a:1"], "worker": ["a:1"]}, )" + task,
       "TF_CONFIG: address a:1 is given to ps/0 and to worker/0"},
      {R"({"cluster": {"ps": ["a:1"], "chief": ["b:1", "c:1"]}, )" + task,
       "TF_CONFIG: cluster.chief"},
      {R"({"cluster": {"ps": ["a:1"], "chief": ["b:1"], "master": ["c:1"]}, )" + task,
       "TF_CONFIG: cluster.chief: 2 addresses"},
      {R"({"cluster": {"ps": ["a:1"]}, )" + task, "--chief_host: is missing"},
      {Dense(R"({"type": "ps", "index": 2})"),
       "TF_CONFIG: task ps/2 is not in the cluster; job ps"},
      {Dense(R"({"type": "ps", "index": -1})"), "TF_CONFIG: task.index: a whole number"},
      {Dense(R"({"type": "ps", "index": 1.5})"), "TF_CONFIG: task.index: a whole number"},
      {Dense(R"({"type": "ps", "index": "one"})"), "TF_CONFIG: task.index: a whole number"},
      {Dense(R"({"type": "ps", "index": 4294967296})"), "TF_CONFIG: task.index: a whole number"},
      {Dense(R"({"type": "ps"})"), "TF_CONFIG: task.index is missing"},
      {Dense(R"({"type": "chief", "index": 1})"), "TF_CONFIG: task.index is 1; the only chief"},
      {Dense(R"({"type": "boss", "index": 0})"), "TF_CONFIG: task.type: job \"boss\" is unknown"},
      {Dense(R"({"index": 0})"), "TF_CONFIG: task.type is missing"}};
  for (const auto& [text, message] : cases) EXPECT_THAT(Error(TfConfig(text)), StartsWith(message));
}

TEST(TfConfigTest, AClusterWithoutPsIsRefusedAtOnce) {
  for (const char* task : {R"({"type": "worker", "index": 0})", R"({"type": "chief", "index": 0})",
                           R"({"type": "ps", "index": 0})"}) {
    for (const char* form :
         {R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": )",
          R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": []}, "task": )",
          R"({"cluster": {"chief": ["a:1"], "worker": {"0": "b:1"}, "ps": []}, "task": )"}) {
      EXPECT_THAT(Error(TfConfig(form + std::string(task) + "}")),
                  StartsWith("TF_CONFIG: cluster names no ps, "));
    }
  }
  const std::string evaluator = R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator"}})";
  EXPECT_EQ(Resolved(TfConfig(evaluator)).task.job, Job::kEvaluator);
}

TEST(TfConfigTest, AChiefOutsideTheClusterGetsTheNameOfItsHost) {
  for (const char* type : {"chief", "master"}) {
    const std::string text =
        R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": ")" +
        std::string(type) + R"(", "index": 0}})";
    EXPECT_THAT(Error(TfConfig(text)),
                StartsWith("TF_CONFIG: this task is the chief, but cluster names none; add job "
                           "chief, or leave this task out: worker/0 then hosts the chief"));
  }
}

TEST(TfConfigTest, FlagsThatContradictTfConfigAreRefused) {
  ResolverInput input = TfConfig(Dense(R"({"type": "ps", "index": 1})"));
  input.job = Job::kWorker;
  EXPECT_THAT(Error(input), StartsWith("--job_name: is worker, but TF_CONFIG has task.type ps"));
  input.job = Job::kPs;
  input.task_index = 0;
  EXPECT_THAT(Error(input), StartsWith("--task_index: is 0, but TF_CONFIG has task.index 1"));
}

}  // namespace
}  // namespace shoal
