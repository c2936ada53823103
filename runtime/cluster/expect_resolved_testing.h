// Expectations of tests about ResolveTaskPlace: a place, or words of the error.
#ifndef SHOAL_RUNTIME_CLUSTER_EXPECT_RESOLVED_TESTING_H_
#define SHOAL_RUNTIME_CLUSTER_EXPECT_RESOLVED_TESTING_H_

#include <string>

#include "gtest/gtest.h"

#include "runtime/cluster/task_resolver.h"

namespace shoal {

// Returns the place; fails the test if the input does not resolve.
inline ResolvedTask Resolved(const ResolverInput& input) {
  const auto resolved = ResolveTaskPlace(input);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? *resolved : ResolvedTask();
}

// Returns the error's words. If the input resolves, returns the place as JSON instead, so that
// message matchers fail.
inline std::string Error(const ResolverInput& input) {
  const auto resolved = ResolveTaskPlace(input);
  return resolved.ok() ? ToJson(*resolved) : std::string(resolved.status().message());
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_EXPECT_RESOLVED_TESTING_H_
