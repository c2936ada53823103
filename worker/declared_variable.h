#ifndef SHOAL_WORKER_DECLARED_VARIABLE_H_
#define SHOAL_WORKER_DECLARED_VARIABLE_H_

#include "ml/graph/variable_spec.h"
#include "proto/v1/variable.pb.h"

namespace shoal {

// What a graph says of a variable, as its owner is told.
v1::VariableSpec DeclaredVariable(const VariableSpec& spec);

}  // namespace shoal

#endif  // SHOAL_WORKER_DECLARED_VARIABLE_H_
