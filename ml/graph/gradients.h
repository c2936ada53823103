// Reverse-mode differentiation of a graph.
#ifndef SHOAL_ML_GRAPH_GRADIENTS_H_
#define SHOAL_ML_GRAPH_GRADIENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/graph/graph_builder.h"

namespace shoal {

// Adds the nodes that compute d loss / d variable for each variable, under the builder's device
// scopes and a name scope "gradients". A gradient has its variable's shape; it is not valid where
// the loss does not depend on the variable. Any outputs can stand for variables. InvalidArgument if
// the loss is not one floating-point number.
absl::StatusOr<std::vector<Output>> BuildGradients(GraphBuilder& builder, Output loss,
                                                   absl::Span<const Output> variables);

// The same by the clone (WithClone) that computes a part, for a loss that several have: [clone, or
// num_clones for what belongs to none][variable], each a sum on its clone's device, not valid where
// there is none. The gradient is the sum over the clones.
absl::StatusOr<std::vector<std::vector<Output>>> BuildCloneGradients(
    GraphBuilder& builder, Output loss, absl::Span<const Output> variables, int num_clones);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRADIENTS_H_
