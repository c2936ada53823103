// Chooses the instruction set of the CPU kernels. It depends only on the machine. Results are the
// same to the byte only on machines with the same instruction set.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_CPU_FEATURES_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_CPU_FEATURES_H_

#include <string>

namespace shoal::cpu {

// Sorted: a machine that supports one instruction set supports all before it.
enum class CpuIsa { kGeneric, kAvx2, kAvx512 };

// Returns the best instruction set of this machine. kAvx2 requires AVX2 and FMA; kAvx512 also
// requires AVX-512 F, BW, DQ and VL.
CpuIsa DetectCpuIsa();

// Returns the instruction sets that the kernels of this folder and oneDNN use, such as "avx512
// dnnl-2.6.3/0x1ef". The compute fingerprint contains it.
std::string CpuIsaName();

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_CPU_FEATURES_H_
