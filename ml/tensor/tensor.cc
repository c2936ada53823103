#include "ml/tensor/tensor.h"

namespace shoal {

Tensor::Tensor(const TensorSpec& spec)
    : spec_(spec), buffer_(std::make_shared<Buffer>(spec.bytes())) {}

}  // namespace shoal
