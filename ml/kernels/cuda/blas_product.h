// Computes products of row-major matrices of given shapes with cuBLASLt.
#ifndef SHOAL_ML_KERNELS_CUDA_BLAS_PRODUCT_H_
#define SHOAL_ML_KERNELS_CUDA_BLAS_PRODUCT_H_

#include <cublasLt.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/kernels/cuda/cuda_device.h"

namespace shoal::cuda {

// c[m,n] = op(a) op(b), all row-major.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
  bool shares_b = false;     // the whole batch uses the same b
  bool is_bfloat16 = false;  // a and b are bfloat16; sums and c are float32
};

// An operation that cuBLASLt does in the same kernel as the product. kColumnSumsOfB writes the sums
// over the rows of b to the address of the bias.
enum class Epilogue { kNone, kBias, kRelu, kBiasRelu, kColumnSumsOfB };

class BlasProduct {
 public:
  // Returns NotFound if cuBLASLt has no algorithm, which happens for some epilogues.
  static absl::StatusOr<std::unique_ptr<BlasProduct>> Create(CudaDevice* device,
                                                             const ProductShape& shape,
                                                             Epilogue epilogue);
  ~BlasProduct();

  size_t workspace_bytes() const { return algorithm_.workspaceSize; }
  // Enqueues the product on the device's compute stream. All pointers are to device memory. a and b
  // have the type that the shape declares. `bias` has n floats, which are read, or written by
  // kColumnSumsOfB; null if the epilogue needs none.
  void Run(const void* a, const void* b, float* c, const float* bias, void* workspace);

 private:
  explicit BlasProduct(CudaDevice* device) : device_(*device) {}
  absl::Status SetUp(const ProductShape& shape, Epilogue epilogue);
  absl::Status SetLayout(cublasLtMatrixLayout_t* layout, int64_t rows, int64_t columns,
                         int64_t batch, int64_t stride, cudaDataType_t dtype);
  absl::Status ChooseAlgorithm();

  CudaDevice& device_;
  bool has_bias_ = false;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, result_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_ = {};
};

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_BLAS_PRODUCT_H_
