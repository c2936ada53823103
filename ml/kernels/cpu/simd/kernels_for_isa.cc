// Chooses the kernels of an instruction set.
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cpu/simd/feature_kernels.h"
#include "ml/kernels/cpu/simd/math_kernels.h"
#include "ml/kernels/cpu/simd/normalization_kernels.h"
#include "ml/kernels/cpu/simd/pool_kernels.h"
#include "ml/kernels/cpu/simd/product_kernels.h"
#include "ml/kernels/cpu/simd/selection_kernels.h"
#include "ml/kernels/cpu/simd/simd_kernels.h"
#include "ml/kernels/cpu/simd/winograd_kernels.h"

namespace shoal::cpu {
namespace {

template <typename Kernels>
const Kernels& ForIsa(CpuIsa isa, const Kernels& generic, const Kernels& avx2,
                      const Kernels& avx512) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return avx512;
    case CpuIsa::kAvx2:
      return avx2;
    case CpuIsa::kGeneric:
      break;
  }
  return generic;
}

}  // namespace

const FeatureKernels& FeatureKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kFeatureKernels, avx2::kFeatureKernels, avx512::kFeatureKernels);
}

const MathKernels& MathKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kMathKernels, avx2::kMathKernels, avx512::kMathKernels);
}

const NormalizationKernels& NormalizationKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kNormalizationKernels, avx2::kNormalizationKernels,
                avx512::kNormalizationKernels);
}

const PoolKernels& PoolKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kPoolKernels, avx2::kPoolKernels, avx512::kPoolKernels);
}

const ProductKernels& ProductKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kProductKernels, avx2::kProductKernels, avx512::kProductKernels);
}

const SelectionKernels& SelectionKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kSelectionKernels, avx2::kSelectionKernels,
                avx512::kSelectionKernels);
}

const SimdKernels& SimdKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kSimdKernels, avx2::kSimdKernels, avx512::kSimdKernels);
}

const WinogradKernels& WinogradKernelsFor(CpuIsa isa) {
  return ForIsa(isa, generic::kWinogradKernels, avx2::kWinogradKernels, avx512::kWinogradKernels);
}

const PoolKernels& PlainPoolKernels() { return plain::kPoolKernels; }

}  // namespace shoal::cpu
