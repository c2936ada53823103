#include "runtime/tls/certificate_role.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"

namespace shoal {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::ServiceDescriptor;

TEST(CertificateRoleTest, TheLastPartIsTheRoleAndTheRestTheScope) {
  const CertificateIdentity identity = ParseIdentity({"spiffe://shoal/blue/worker"});
  EXPECT_EQ(identity.scope, "spiffe://shoal/blue");
  EXPECT_EQ(identity.roles, kRoleWorker);
}

TEST(CertificateRoleTest, SeveralUrisOfOneScopeAddUp) {
  const CertificateIdentity identity =
      ParseIdentity({"spiffe://shoal/worker", "spiffe://shoal/chief", "spiffe://other/ps"});
  EXPECT_EQ(identity.scope, "spiffe://shoal");
  EXPECT_EQ(identity.roles, kRoleWorker | kRoleChief);
  EXPECT_EQ(RoleNames(identity.roles), "chief,worker");
}

TEST(CertificateRoleTest, OtherUrisGiveNoRole) {
  for (const char* uri : {"", "worker", "https://shoal/worker", "spiffe://shoal/admin",
                          "spiffe://shoal/worker/", "spiffe://shoal/WORKER"}) {
    EXPECT_EQ(ParseIdentity({uri}).roles, 0u) << uri;
  }
}

TEST(CertificateRoleTest, EveryMethodOfTheServicesHasItsRoles) {
  // Refers to both files, so that their descriptors are linked.
  v1::RegisterTaskRequest::descriptor();
  v1::LoadSlicesRequest::descriptor();
  for (const char* name : {"shoal.v1.ChiefService", "shoal.v1.ParameterService"}) {
    const ServiceDescriptor* service = DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string method = absl::StrCat("/", name, "/", service->method(i)->name());
      EXPECT_NE(RolesAllowed(method), 0u) << method << ": add it to certificate_role.cc";
    }
  }
}

TEST(CertificateRoleTest, EachRoleMayCallItsMethods) {
  EXPECT_EQ(RolesAllowed("/shoal.v1.ChiefService/RequestStop"),
            kRoleChief | kRoleOperator | kRolePs | kRoleWorker);
  EXPECT_EQ(RolesAllowed("/shoal.v1.ChiefService/ReportNorms"), kRolePs);
  EXPECT_EQ(RolesAllowed("/shoal.v1.ParameterService/Finish"), kRoleChief);
  EXPECT_EQ(RolesAllowed("/shoal.v1.BulkService/Exchange"), kRoleWorker);
  EXPECT_EQ(RolesAllowed("/shoal.v1.ChiefService/Unknown"), 0u);
  EXPECT_EQ(RolesAllowed("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"), 0u);
  EXPECT_EQ(RolesAllowed(""), 0u);
}

}  // namespace
}  // namespace shoal
