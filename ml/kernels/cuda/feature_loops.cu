#define SHOAL_LOOPS_HEADER "ml/kernels/cuda/device_loops.cuh"
#include "ml/kernels/cuda/feature_loops.inc"
