// A kernel request in words, for the errors of backends that have no kernel for it.
#ifndef SHOAL_ML_DEVICE_DESCRIBE_REQUEST_H_
#define SHOAL_ML_DEVICE_DESCRIBE_REQUEST_H_

#include <string>

#include "ml/device/kernel.h"

namespace shoal {

// "MatMul(float32 [4,3], float32 [3,5]) -> (float32 [4,5])"; layouts other than the plain one are
// named behind the shape.
std::string DescribeRequest(const KernelRequest& request);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_DESCRIBE_REQUEST_H_
