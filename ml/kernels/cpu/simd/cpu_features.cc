#include "ml/kernels/cpu/simd/cpu_features.h"

#include <dnnl.h>

#include <cstdio>

namespace shoal::cpu {
namespace {

const char* OwnIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kGeneric:
      return "generic";
  }
  return "unknown";
}

}  // namespace

CpuIsa DetectCpuIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) return CpuIsa::kAvx512;
  if (avx2) return CpuIsa::kAvx2;
#endif
  return CpuIsa::kGeneric;
}

std::string CpuIsaName() {
  const dnnl_version_t* version = dnnl_version();
  char name[96];
  std::snprintf(name, sizeof(name), "%s dnnl-%d.%d.%d/0x%x", OwnIsaName(DetectCpuIsa()),
                version->major, version->minor, version->patch,
                static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
  return name;
}

}  // namespace shoal::cpu
