#include "runtime/tls/certificate_role.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace shoal {
namespace {

constexpr std::pair<absl::string_view, RoleSet> kRoles[] = {{"chief", kRoleChief},
                                                            {"ps", kRolePs},
                                                            {"worker", kRoleWorker},
                                                            {"evaluator", kRoleEvaluator},
                                                            {"operator", kRoleOperator}};

RoleSet ParseRole(absl::string_view name) {
  for (const auto& [known, role] : kRoles) {
    if (name == known) return role;
  }
  return 0;
}

constexpr absl::string_view kChiefService = "/shoal.v1.ChiefService/";
constexpr RoleSet kMembers = kRolePs | kRoleWorker;

constexpr std::pair<absl::string_view, RoleSet> kChiefMethods[] = {
    // The service checks that the member named in them is of the certificate's role.
    {"RegisterTask", kMembers},
    {"Heartbeat", kMembers},
    {"ReportSteps", kRolePs},
    {"ReportShard", kRolePs},
    {"ReportNorms", kRolePs},
    {"ReportEvaluation", kRoleWorker},
    {"LeaseBatches", kRoleWorker},
    // The service takes a worker's own reports from workers, and deaths from the other two.
    {"ReportBadBatch", kRoleWorker | kRoleChief | kRoleOperator},
    // A task that is asked to end requests a checkpoint; the service lets only a chief or an
    // operator end the run.
    {"RequestStop", kMembers | kRoleChief | kRoleOperator},
    {"GetRunStatus", kAnyRole},
};

}  // namespace

std::string RoleNames(RoleSet roles) {
  std::vector<absl::string_view> names;
  for (const auto& [name, role] : kRoles) {
    if ((roles & role) != 0) names.push_back(name);
  }
  return names.empty() ? "no role" : absl::StrJoin(names, ",");
}

CertificateIdentity ParseIdentity(absl::Span<const std::string> uris) {
  CertificateIdentity identity;
  for (const std::string& uri : uris) {
    const size_t slash = uri.rfind('/');
    if (slash == std::string::npos || !absl::StartsWith(uri, "spiffe://")) continue;
    const RoleSet role = ParseRole(absl::string_view(uri).substr(slash + 1));
    if (role == 0) continue;
    const std::string scope = uri.substr(0, slash);
    if (identity.roles == 0) identity.scope = scope;
    if (identity.scope == scope) identity.roles |= role;
  }
  return identity;
}

RoleSet RolesAllowed(absl::string_view method) {
  if (absl::ConsumePrefix(&method, kChiefService)) {
    for (const auto& [name, roles] : kChiefMethods) {
      if (method == name) return roles;
    }
    return 0;
  }
  if (absl::StartsWith(method, "/shoal.v1.ParameterService/")) return kRoleChief;
  if (absl::StartsWith(method, "/shoal.v1.BulkService/")) return kRoleWorker;
  if (absl::StartsWith(method, "/grpc.health.v1.Health/")) return kAnyRole;
  return 0;
}

}  // namespace shoal
