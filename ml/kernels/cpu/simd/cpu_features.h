// Chooses the instruction set of the CPU kernels. A pure function of the machine; results are
// reproducible to the byte only between machines with the same answer.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_CPU_FEATURES_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_CPU_FEATURES_H_

#include <string>

namespace shoal::cpu {

// In rising order: a machine that has one has those before it.
enum class CpuIsa { kGeneric, kAvx2, kAvx512 };

// kAvx2 means AVX2 and FMA; kAvx512 means F, BW, DQ and VL besides.
CpuIsa DetectCpuIsa();

// For the compute fingerprint: our own instruction set and oneDNN's, e.g. "avx512
// dnnl-2.6.3/0x1ef".
std::string CpuIsaName();

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_CPU_FEATURES_H_
