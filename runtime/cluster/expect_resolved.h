// What tests ask of ResolveTaskPlace: a place, or the words of the error.
#ifndef SHOAL_RUNTIME_CLUSTER_EXPECT_RESOLVED_H_
#define SHOAL_RUNTIME_CLUSTER_EXPECT_RESOLVED_H_

#include <string>

#include "gtest/gtest.h"

#include "runtime/cluster/task_resolver.h"

namespace shoal {

// Fails the test where there is an error.
inline ResolvedTask Resolved(const ResolverInput& input) {
  const auto resolved = ResolveTaskPlace(input);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? *resolved : ResolvedTask();
}

// Of an input that resolves in spite of all: the place, so that no expectation of words holds.
inline std::string Error(const ResolverInput& input) {
  const auto resolved = ResolveTaskPlace(input);
  return resolved.ok() ? ToJson(*resolved) : std::string(resolved.status().message());
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_EXPECT_RESOLVED_H_
