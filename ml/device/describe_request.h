// Describes a kernel request in the errors of backends that have no kernel for it.
#ifndef SHOAL_ML_DEVICE_DESCRIBE_REQUEST_H_
#define SHOAL_ML_DEVICE_DESCRIBE_REQUEST_H_

#include <string>

#include "ml/device/kernel.h"

namespace shoal {

// Returns "MatMul(float32 [4,3], float32 [3,5]) -> (float32 [4,5])". A layout other than the plain
// one follows its shape.
std::string DescribeRequest(const KernelRequest& request);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_DESCRIBE_REQUEST_H_
