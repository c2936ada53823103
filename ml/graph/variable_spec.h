// The declaration of a variable by a graph, from which the variable's owner creates and updates it.
#ifndef SHOAL_ML_GRAPH_VARIABLE_SPEC_H_
#define SHOAL_ML_GRAPH_VARIABLE_SPEC_H_

#include <string>

#include "ml/tensor/dtype.h"
#include "ml/tensor/initializer.h"
#include "ml/tensor/shape.h"

namespace shoal {

// Says how the owner updates the variable from the contributions of a step. The numbers are those
// of proto/v1's UpdateKind.
enum class UpdateKind {
  kOptimizer = 1,      // contributions are gradients
  kMovingAverage = 2,  // value = decay * value + (1 - decay) * mean of the contributions
  kAssign = 3,         // value = mean of the contributions
  kNone = 4,           // there are no contributions; the value never changes
};

struct VariableSpec {
  std::string name;  // "conv1/weights"
  Shape shape;
  DataType dtype = DataType::kFloat32;
  bool trainable = true;
  InitializerSpec initializer;
  UpdateKind update = UpdateKind::kOptimizer;
  double decay = 0;  // kMovingAverage only

  friend bool operator==(const VariableSpec& x, const VariableSpec& y) {
    return x.name == y.name && x.shape == y.shape && x.dtype == y.dtype &&
           x.trainable == y.trainable && x.initializer == y.initializer && x.update == y.update &&
           x.decay == y.decay;
  }
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_VARIABLE_SPEC_H_
