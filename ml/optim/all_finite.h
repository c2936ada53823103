#ifndef SHOAL_ML_OPTIM_ALL_FINITE_H_
#define SHOAL_ML_OPTIM_ALL_FINITE_H_

#include <cstddef>

namespace shoal {

// Returns whether all n numbers are finite. Its speed is limited only by the memory's.
bool AllFinite(const float* values, size_t n);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_ALL_FINITE_H_
