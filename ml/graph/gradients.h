// Reverse-mode differentiation of a graph.
#ifndef SHOAL_ML_GRAPH_GRADIENTS_H_
#define SHOAL_ML_GRAPH_GRADIENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/graph/graph_builder.h"

namespace shoal {

// Adds the nodes that compute d loss / d variable for each variable, in the builder's device scopes
// and in a name scope "gradients". A gradient has the shape of its variable; it is not valid if the
// loss does not depend on the variable. `variables` may be any outputs of nodes. Returns
// InvalidArgument if the loss is not a floating-point scalar.
absl::StatusOr<std::vector<Output>> BuildGradients(GraphBuilder& builder, Output loss,
                                                   absl::Span<const Output> variables);

// Does the same for a loss to which several clones contribute, and returns each clone's part of the
// gradients: result[c][v] is the part of variable v from the nodes of clone c (see WithClone),
// summed on the clone's device; result[num_clones] is the part from nodes of no clone. A part is
// not valid if there are no such nodes. The gradient of v is the sum of result[c][v] over all c.
absl::StatusOr<std::vector<std::vector<Output>>> BuildCloneGradients(
    GraphBuilder& builder, Output loss, absl::Span<const Output> variables, int num_clones);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRADIENTS_H_
