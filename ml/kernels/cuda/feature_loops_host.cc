#define SHOAL_LOOPS_HEADER "ml/kernels/cuda/host_loops.h"
#include "ml/kernels/cuda/feature_loops.inc"
