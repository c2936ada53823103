#ifndef SHOAL_ML_OPTIM_PORTABLE_MATH_H_
#define SHOAL_ML_OPTIM_PORTABLE_MATH_H_

#include <cstdint>

namespace shoal {

// Powers and a cosine out of plain IEEE operations. The C library picks code by the CPU it runs on
// and may round the last bit differently there; learning rates and optimizer scalars must have the
// same bits on every machine of a run. Relative error below 1e-13.

// base^exponent for exponent >= 0, by squaring.
double PortablePow(double base, int64_t exponent);

// base^exponent for base >= 0 and finite arguments; 0^0 is 1, 0^negative is infinity.
double PortablePow(double base, double exponent);

// cos(pi * x) for x in [0, 1].
double PortableCosPi(double x);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_PORTABLE_MATH_H_
