// A kernel of our own beside the library's.
#ifndef SHOAL_TESTS_TOOLCHAIN_FILL_H_
#define SHOAL_TESTS_TOOLCHAIN_FILL_H_

#include <cuda_runtime_api.h>

namespace shoal {

// Sets size floats of device memory, in the stream's order.
cudaError_t Fill(float* data, int size, float value, cudaStream_t stream);

}  // namespace shoal

#endif  // SHOAL_TESTS_TOOLCHAIN_FILL_H_
