// What a certificate lets its owner do. A certificate names its roles by URIs among its subject
// alternative names:
//
//   spiffe://shoal/ps             role ps in the scope spiffe://shoal
//   spiffe://shoal/blue/worker    role worker in the scope spiffe://shoal/blue
//
// The last part is the role, what stands before it the scope: certificates of different scopes do
// not go together even where one authority signed both. Host names are not looked at: tasks move
// between hosts, what they may do does not.
#ifndef SHOAL_RUNTIME_TLS_CERTIFICATE_ROLE_H_
#define SHOAL_RUNTIME_TLS_CERTIFICATE_ROLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// Bits.
using RoleSet = uint32_t;
inline constexpr RoleSet kRoleChief = 1;
inline constexpr RoleSet kRolePs = 2;
inline constexpr RoleSet kRoleWorker = 4;
inline constexpr RoleSet kRoleEvaluator = 8;
inline constexpr RoleSet kRoleOperator = 16;  // People and launchers: status, stop, checkpoint.
inline constexpr RoleSet kAnyRole = 31;

// "chief", "ps", "worker", "evaluator", "operator"; with commas if several; "no role".
std::string RoleNames(RoleSet roles);

struct CertificateIdentity {
  std::string scope;  // Of the first URI with a role; URIs of other scopes are left out.
  RoleSet roles = 0;  // None: the certificate is not of this project.
};

CertificateIdentity IdentityOf(absl::Span<const std::string> uris);

// Who may call a method, "/shoal.v1.ChiefService/RegisterTask". Nobody where it is not known.
RoleSet RolesAllowed(absl::string_view method);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_CERTIFICATE_ROLE_H_
