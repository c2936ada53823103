// A kernel that is compiled here rather than in a library.
#ifndef SHOAL_TESTS_TOOLCHAIN_FILL_H_
#define SHOAL_TESTS_TOOLCHAIN_FILL_H_

#include <cuda_runtime_api.h>

namespace shoal {

// Enqueues a kernel on `stream` that sets `size` floats of device memory to `value`.
cudaError_t Fill(float* data, int size, float value, cudaStream_t stream);

}  // namespace shoal

#endif  // SHOAL_TESTS_TOOLCHAIN_FILL_H_
