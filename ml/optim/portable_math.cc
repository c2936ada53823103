#include "ml/optim/portable_math.h"

#include <cmath>
#include <limits>

// Compiled with -ffp-contract=off: see BUILD.

namespace shoal {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kSqrtHalf = 0.70710678118654752440;

// log2 of a normal positive number: exponent + 2*atanh((m-1)/(m+1))/ln 2 with m in [sqrt(1/2),
// sqrt(2)).
double Log2(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < kSqrtHalf) {
    m = m * 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1);  // |t| <= 0.1716
  const double t2 = t * t;
  double sum = 0;
  for (int k = 19; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return exponent + 2 * t * sum / kLn2;
}

// 2^x: the integer part scales exactly, the rest is a Taylor series of e^(x ln 2) with |x| <= 1/2.
double Exp2(double x) {
  if (std::isnan(x)) return x;
  if (x > 1024) return std::numeric_limits<double>::infinity();
  if (x < -1080) return 0;
  const double whole = std::floor(x + 0.5);
  const double y = (x - whole) * kLn2;
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = 1 + sum * y / k;
  return std::ldexp(sum, static_cast<int>(whole));
}

}  // namespace

double PortablePow(double base, int64_t exponent) {
  double result = 1;
  for (double square = base; exponent > 0; exponent >>= 1, square = square * square) {
    if (exponent & 1) result = result * square;
  }
  return result;
}

double PortablePow(double base, double exponent) {
  if (exponent == 0) return 1;
  if (base == 0) return exponent > 0 ? 0 : std::numeric_limits<double>::infinity();
  if (exponent == 1) return base;
  return Exp2(exponent * Log2(base));
}

double PortableCosPi(double x) {
  const double y = (0.5 - x) * kPi;  // cos(pi x) = sin(y), |y| <= pi/2
  const double y2 = y * y;
  double sum = 1;
  for (int k = 24; k >= 2; k -= 2) sum = 1 - sum * y2 / (k * (k + 1));
  return y * sum;
}

}  // namespace shoal
