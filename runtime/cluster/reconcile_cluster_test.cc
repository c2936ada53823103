#include "runtime/cluster/reconcile_cluster.h"

#include <gtest/gtest.h>

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/cluster_spec.h"

namespace shoal {
namespace {

TEST(ReconcileClusterTest, HostListsDecideTheNumbersOfTasks) {
  const ClusterSpec cluster = *ClusterSpec::FromHostLists("a:1,b:1,c:1", "d:1,e:1", "f:1");
  v1::RunConfig run;
  ASSERT_TRUE(ReconcileCluster(cluster, &run).ok());
  EXPECT_EQ(run.deployment().num_ps_tasks(), 3u);
  EXPECT_EQ(run.deployment().num_replicas(), 2u);
}

TEST(ReconcileClusterTest, AnotherNumberIsAnErrorThatNamesBoth) {
  const ClusterSpec cluster = *ClusterSpec::FromHostLists("a:1,b:1,c:1", "d:1", "");
  v1::RunConfig run;
  run.mutable_deployment()->set_num_ps_tasks(2);
  EXPECT_EQ(
      ReconcileCluster(cluster, &run).message(),
      "num_ps_tasks: is 2, but ps_hosts names 3 tasks; drop one of the two or make them agree");
  run.mutable_deployment()->set_num_ps_tasks(3);
  run.mutable_deployment()->set_num_replicas(2);
  EXPECT_EQ(ReconcileCluster(cluster, &run).message(),
            "num_replicas: is 2, but worker_hosts names 1 task; drop one of the two or make them "
            "agree");
}

TEST(ReconcileClusterTest, AListOfWorkersDoesNotSetTheNumberOfPs) {
  v1::RunConfig run;
  ASSERT_TRUE(ReconcileCluster(*ClusterSpec::FromHostLists("", "d:1,e:1", "c:1"), &run).ok());
  EXPECT_FALSE(run.deployment().has_num_ps_tasks());
  EXPECT_EQ(run.deployment().num_replicas(), 2u);
}

TEST(ReconcileClusterTest, AChiefAloneDoesNotSetTheNumbers) {
  v1::RunConfig run;
  ASSERT_TRUE(ReconcileCluster(*ClusterSpec::FromHostLists("", "", "c:1"), &run).ok());
  EXPECT_FALSE(run.deployment().has_num_ps_tasks());
}

}  // namespace
}  // namespace shoal
