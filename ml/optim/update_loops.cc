// The loops of all update rules. This file is compiled once per set of instructions, with
// SHOAL_UPDATE_LOOPS naming the function that returns them (see BUILD). Everything is local to the
// file and calls no inline function of a library, so that no code for a newer CPU can replace the
// same function elsewhere.
//
// Flags: -O3 so that loops are vectorised; -ffp-contract=off so that no multiply-add is fused on
// one machine and not on another; -fno-math-errno so that a root is one instruction (correctly
// rounded everywhere).

#include "ml/optim/update_loops.h"

#ifdef __clang__
#define SHOAL_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SHOAL_ELEMENTWISE _Pragma("GCC ivdep")
#endif

namespace shoal {
namespace internal {
namespace {

// Returns the gradient after scaling and clipping. NaN stays NaN.
#define SHOAL_GRADIENT(i)                                                \
  const float scaled = gradient[i] * gradient_scale;                     \
  const float below = scaled > gradient_limit ? gradient_limit : scaled; \
  const float g = below < -gradient_limit ? -gradient_limit : below

#define SHOAL_COMMON                             \
  const float* const value = s.value;            \
  const float* const gradient = s.gradient;      \
  float* const new_value = s.new_value;          \
  const float gradient_scale = c.gradient_scale; \
  const float gradient_limit = c.gradient_limit; \
  const float lr = c.learning_rate;              \
  const size_t n = s.n

void Sgd(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    new_value[i] = value[i] - lr * g;
  }
}

void Momentum(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float* const slot = s.slots[0];
  float* const new_slot = s.new_slots[0];
  const float momentum = c.momentum;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float a = momentum * slot[i] + g;
    new_value[i] = value[i] - lr * a;
    new_slot[i] = a;
  }
}

void Nesterov(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float* const slot = s.slots[0];
  float* const new_slot = s.new_slots[0];
  const float momentum = c.momentum;
  const float lr_momentum = c.learning_rate_momentum;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float a = momentum * slot[i] + g;
    new_value[i] = value[i] - (lr * g + lr_momentum * a);
    new_slot[i] = a;
  }
}

void Adagrad(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float* const slot = s.slots[0];
  float* const new_slot = s.new_slots[0];
  const float epsilon = c.epsilon;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float a = slot[i] + g * g;
    new_value[i] = value[i] - lr * g / (__builtin_sqrtf(a) + epsilon);
    new_slot[i] = a;
  }
}

void Adadelta(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float *const accumulator = s.slots[0], *const delta = s.slots[1];
  float *const new_accumulator = s.new_slots[0], *const new_delta = s.new_slots[1];
  const float rho = c.decay, one_minus_rho = c.one_minus_decay, epsilon = c.epsilon;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float a = rho * accumulator[i] + one_minus_rho * (g * g);
    const float u = g * __builtin_sqrtf(delta[i] + epsilon) / __builtin_sqrtf(a + epsilon);
    new_value[i] = value[i] - lr * u;
    new_accumulator[i] = a;
    new_delta[i] = rho * delta[i] + one_minus_rho * (u * u);
  }
}

void RmsProp(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float *const rms = s.slots[0], *const slot = s.slots[1];
  float *const new_rms = s.new_slots[0], *const new_slot = s.new_slots[1];
  const float decay = c.decay, one_minus_decay = c.one_minus_decay;
  const float momentum = c.momentum, epsilon = c.epsilon;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float square = decay * rms[i] + one_minus_decay * (g * g);
    const float m = momentum * slot[i] + lr * g / __builtin_sqrtf(square + epsilon);
    new_value[i] = value[i] - m;
    new_rms[i] = square;
    new_slot[i] = m;
  }
}

void RmsPropCentered(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float *const rms = s.slots[0], *const slot = s.slots[1], *const mean = s.slots[2];
  float *const new_rms = s.new_slots[0], *const new_slot = s.new_slots[1];
  float* const new_mean = s.new_slots[2];
  const float decay = c.decay, one_minus_decay = c.one_minus_decay;
  const float momentum = c.momentum, epsilon = c.epsilon;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float square = decay * rms[i] + one_minus_decay * (g * g);
    const float average = decay * mean[i] + one_minus_decay * g;
    // The variance cannot be negative; rounding can make it so.
    const float difference = square - average * average;
    const float variance = difference < 0.0f ? 0.0f : difference;
    const float m = momentum * slot[i] + lr * g / __builtin_sqrtf(variance + epsilon);
    new_value[i] = value[i] - m;
    new_rms[i] = square;
    new_slot[i] = m;
    new_mean[i] = average;
  }
}

void Adam(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float *const first = s.slots[0], *const second = s.slots[1];
  float *const new_first = s.new_slots[0], *const new_second = s.new_slots[1];
  const float beta1 = c.decay, one_minus_beta1 = c.one_minus_decay;
  const float beta2 = c.decay2, one_minus_beta2 = c.one_minus_decay2;
  const float epsilon = c.epsilon;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float m = beta1 * first[i] + one_minus_beta1 * g;
    const float square = beta2 * second[i] + one_minus_beta2 * (g * g);
    new_value[i] = value[i] - lr * m / (__builtin_sqrtf(square) + epsilon);
    new_first[i] = m;
    new_second[i] = square;
  }
}

void AdamW(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float *const first = s.slots[0], *const second = s.slots[1];
  float *const new_first = s.new_slots[0], *const new_second = s.new_slots[1];
  const float beta1 = c.decay, one_minus_beta1 = c.one_minus_decay;
  const float beta2 = c.decay2, one_minus_beta2 = c.one_minus_decay2;
  const float epsilon = c.epsilon, lr_decay = c.learning_rate_decay;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float m = beta1 * first[i] + one_minus_beta1 * g;
    const float square = beta2 * second[i] + one_minus_beta2 * (g * g);
    const float kept = value[i] - lr_decay * value[i];
    new_value[i] = kept - lr * m / (__builtin_sqrtf(square) + epsilon);
    new_first[i] = m;
    new_second[i] = square;
  }
}

// FTRL with the power -0.5, for which n^-p is a square root.
void Ftrl(const UpdateScalars& c, const UpdateStep& s) {
  SHOAL_COMMON;
  const float *const accumulator = s.slots[0], *const linear = s.slots[1];
  float *const new_accumulator = s.new_slots[0], *const new_linear = s.new_slots[1];
  const float l1 = c.l1, two_l2 = c.two_l2;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    const float a = accumulator[i] + g * g;
    const float root = __builtin_sqrtf(a);
    const float z = linear[i] + g - (root - __builtin_sqrtf(accumulator[i])) / lr * value[i];
    const float pull = z > 0.0f ? l1 : -l1;
    const float moved = (pull - z) / (root / lr + two_l2);
    const float size = __builtin_fabsf(z);
    new_value[i] = size <= l1 ? 0.0f : moved;  // NaN moves
    new_accumulator[i] = a;
    new_linear[i] = z;
  }
}

void DecayGradient(float gradient_scale, float gradient_limit, float decay, const float* gradient,
                   const float* value, float* decayed, size_t n) {
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    SHOAL_GRADIENT(i);
    decayed[i] = g + decay * value[i];
  }
}

void Average(float decay, float one_minus_decay, const float* average, const float* value,
             float* new_average, size_t n) {
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    new_average[i] = decay * average[i] + one_minus_decay * value[i];
  }
}

// The loop has no branch for each element.
bool AllFinite(const float* values, size_t n) {
  unsigned bad = 0;
  SHOAL_ELEMENTWISE
  for (size_t i = 0; i < n; ++i) {
    bad |= __builtin_fabsf(values[i]) <= __FLT_MAX__ ? 0u : 1u;  // NaN compares false
  }
  return bad == 0;
}

// A row of kDim floats, or of s.dim if kDim is 0. The squares are added in eight partial sums,
// which are one vector.
template <size_t kDim>
bool RowwiseAdagradRows(const RowwiseAdagradStep& s) {
  constexpr size_t kSums = 8;
  const size_t dim = kDim == 0 ? s.dim : kDim;
  const size_t whole = dim / kSums * kSums;
  const float scale = s.gradient_scale;
  unsigned bad = 0;
  for (size_t r = 0; r < s.num_rows; ++r) {
    const float* const __restrict gradient = s.gradients + r * dim;
    float* const __restrict row = s.rows[r];
    float sums[kSums] = {};
    for (size_t i = 0; i < whole; i += kSums) {
      for (size_t j = 0; j < kSums; ++j) {
        const float g = gradient[i + j] * scale;
        sums[j] += g * g;
      }
    }
    for (size_t i = whole; i < dim; ++i) {
      const float g = gradient[i] * scale;
      sums[i - whole] += g * g;
    }
    const float square =
        ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    const float accumulator = row[dim] + square / static_cast<float>(dim);
    const float factor = s.learning_rate / (__builtin_sqrtf(accumulator) + s.epsilon) * scale;
    for (size_t i = 0; i < dim; ++i) {
      const float v = row[i] - factor * gradient[i];
      row[i] = v;
      bad |= __builtin_fabsf(v) <= __FLT_MAX__ ? 0u : 1u;
    }
    row[dim] = accumulator;
    bad |= __builtin_fabsf(accumulator) <= __FLT_MAX__ ? 0u : 1u;
  }
  return bad == 0;
}

bool RowwiseAdagrad(const RowwiseAdagradStep& s) {
  switch (s.dim) {
    case 8:
      return RowwiseAdagradRows<8>(s);
    case 16:
      return RowwiseAdagradRows<16>(s);
    case 32:
      return RowwiseAdagradRows<32>(s);
    case 64:
      return RowwiseAdagradRows<64>(s);
    default:
      return RowwiseAdagradRows<0>(s);
  }
}

constexpr UpdateLoops kLoops = {
    &Sgd,  &Momentum, &Nesterov, &Adagrad,       &Adadelta, &RmsProp,   &RmsPropCentered,
    &Adam, &AdamW,    &Ftrl,     &DecayGradient, &Average,  &AllFinite, &RowwiseAdagrad};

}  // namespace

const UpdateLoops& SHOAL_UPDATE_LOOPS() { return kLoops; }

}  // namespace internal
}  // namespace shoal
