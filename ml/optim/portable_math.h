#ifndef SHOAL_ML_OPTIM_PORTABLE_MATH_H_
#define SHOAL_ML_OPTIM_PORTABLE_MATH_H_

#include <cstdint>

namespace shoal {

// Powers and a cosine, computed with basic IEEE operations. The C library chooses its code by the
// CPU, so its results may differ in the last bit between machines, but learning rates and optimizer
// scalars must have the same bits on all machines of a run. The relative error is below 1e-13.

// Returns base^exponent for exponent >= 0, by squaring.
double PortablePow(double base, int64_t exponent);

// Returns base^exponent for base >= 0 and finite arguments; 0^0 is 1, 0^negative is infinity.
double PortablePow(double base, double exponent);

// Returns cos(pi * x) for x in [0, 1].
double PortableCosPi(double x);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_PORTABLE_MATH_H_
