// The roles in a certificate, which decide what its owner may do. A certificate names its roles by
// URIs among its subject alternative names:
//
//   spiffe://shoal/ps             role ps in the scope spiffe://shoal
//   spiffe://shoal/blue/worker    role worker in the scope spiffe://shoal/blue
//
// The last part is the role, the part before it the scope. Peers with certificates of different
// scopes refuse each other even if one authority signed both. Host names are not checked, because
// tasks move between hosts.
#ifndef SHOAL_RUNTIME_TLS_CERTIFICATE_ROLE_H_
#define SHOAL_RUNTIME_TLS_CERTIFICATE_ROLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// A set of the bits below.
using RoleSet = uint32_t;
inline constexpr RoleSet kRoleChief = 1;
inline constexpr RoleSet kRolePs = 2;
inline constexpr RoleSet kRoleWorker = 4;
inline constexpr RoleSet kRoleEvaluator = 8;
inline constexpr RoleSet kRoleOperator = 16;  // Users and launchers: status, stop, checkpoint.
inline constexpr RoleSet kAnyRole = 31;

// Returns "chief", "ps", "worker", "evaluator" or "operator", several of them separated by commas,
// or "no role".
std::string RoleNames(RoleSet roles);

struct CertificateIdentity {
  std::string scope;  // The scope of the first URI with a role. URIs of other scopes are ignored.
  RoleSet roles = 0;  // 0 if the certificate is not for Shoal.
};

CertificateIdentity ParseIdentity(absl::Span<const std::string> uris);

// Returns the roles that may call a method, such as "/shoal.v1.ChiefService/RegisterTask"; no role
// if the method is unknown.
RoleSet RolesAllowed(absl::string_view method);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TLS_CERTIFICATE_ROLE_H_
