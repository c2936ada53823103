#ifndef SHOAL_WORKER_REPLICA_DECLARED_VARIABLE_H_
#define SHOAL_WORKER_REPLICA_DECLARED_VARIABLE_H_

#include "ml/graph/variable_spec.h"
#include "proto/v1/variable.pb.h"

namespace shoal {

// Converts a graph's declaration of a variable into the message for its owner.
v1::VariableSpec DeclaredVariable(const VariableSpec& spec);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_DECLARED_VARIABLE_H_
