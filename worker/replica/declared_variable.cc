#include "worker/replica/declared_variable.h"

namespace shoal {

v1::VariableSpec DeclaredVariable(const VariableSpec& spec) {
  v1::VariableSpec proto;
  proto.set_name(spec.name);
  for (int64_t dim : spec.shape.dims()) proto.add_shape(dim);
  if (spec.dtype == DataType::kFloat32) proto.set_dtype(v1::DATA_TYPE_FLOAT32);
  proto.set_trainable(spec.trainable);
  proto.mutable_initializer()->set_kind(static_cast<v1::Initializer::Kind>(spec.initializer.kind));
  proto.mutable_initializer()->set_a(spec.initializer.a);
  proto.mutable_initializer()->set_b(spec.initializer.b);
  proto.set_update(static_cast<v1::UpdateKind>(spec.update));
  proto.set_decay(spec.decay);
  return proto;
}

}  // namespace shoal
