// Runs loops on the host, with the same order of additions as on a GPU; see loops.h.
#ifndef SHOAL_ML_KERNELS_CUDA_HOST_LOOPS_H_
#define SHOAL_ML_KERNELS_CUDA_HOST_LOOPS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ml/kernels/cuda/loops.h"

#define SHOAL_LOOPS on_host
#define LOOP_FUNCTION inline

namespace shoal::cuda::SHOAL_LOOPS {

template <typename F>
void ForEach(void*, int count, F f) {
  for (int i = 0; i < count; ++i) f(i);
}

template <typename F>
typename F::Sum SumOfPart(int row, int begin, int end, int threads, const F& f) {
  std::vector<typename F::Sum> sums(static_cast<size_t>(threads), F::Zero());
  for (int k = begin; k < end; ++k) {
    F::Add(&sums[static_cast<size_t>((k - begin) % threads)], f.Load(row, k));
  }
  for (size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (size_t thread = 0; thread < half; ++thread) F::Add(&sums[thread], sums[thread + half]);
  }
  return sums[0];
}

template <typename F>
void SumRows(void*, int rows, int length, void* workspace, F f) {
  const int parts = PartsOfReduction(rows, length);
  const int terms_per_part = (length + parts - 1) / parts;
  auto* partial = static_cast<typename F::Sum*>(workspace);
  for (int row = 0; row < rows; ++row) {
    for (int part = 0; part < parts; ++part) {
      const int begin = part * terms_per_part;
      const auto sum = SumOfPart(row, begin, std::min(length, begin + terms_per_part),
                                 ThreadsOfReduction(terms_per_part), f);
      if (parts == 1) {
        f.Store(row, sum);
      } else {
        partial[row * parts + part] = sum;
      }
    }
  }
  for (int row = 0; parts > 1 && row < rows; ++row) {
    typename F::Sum sum = partial[row * parts];
    for (int part = 1; part < parts; ++part) F::Add(&sum, partial[row * parts + part]);
    f.Store(row, sum);
  }
}

}  // namespace shoal::cuda::SHOAL_LOOPS

#endif  // SHOAL_ML_KERNELS_CUDA_HOST_LOOPS_H_
