#include "ml/kernels/cuda/blas_product.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace shoal::cuda {
namespace {

constexpr size_t kMaxWorkspace = size_t{32} << 20;
// The alignment of every operand, because arenas are aligned to it.
constexpr uint32_t kAlignment = 64;

// cuBLAS uses column-major matrices. A row-major matrix, read as column-major, is its transpose, so
// this computes c^T = op(b)^T op(a)^T: b is the left operand, and the rows of the result are the
// columns of c.
cublasLtEpilogue_t EpilogueOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kRelu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::kBiasRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kColumnSumsOfB:
      return CUBLASLT_EPILOGUE_BGRADA;  // sums of the left operand, over the depth
    case Epilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                 const T& value) {
  RETURN_IF_LIBRARY_ERROR(
      cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
  return absl::OkStatus();
}

template <typename T>
absl::Status Set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                 const T& value) {
  RETURN_IF_LIBRARY_ERROR(
      cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)));
  return absl::OkStatus();
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  RETURN_IF_LIBRARY_ERROR(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
  return absl::OkStatus();
}

absl::Status SetPreferences(cublasLtMatmulPreference_t preference) {
  RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMaxWorkspace}));
  // Sums of split products go through the workspace, in a fixed order.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(Set(preference, attribute, kAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlasProduct>> BlasProduct::Create(CudaDevice* device,
                                                                 const ProductShape& shape,
                                                                 Epilogue epilogue) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batch == 0) {
    return absl::InvalidArgumentError("a product of empty matrices");
  }
  std::unique_ptr<BlasProduct> product(new BlasProduct(device));
  RETURN_IF_ERROR(product->SetUp(shape, epilogue));
  RETURN_IF_ERROR(product->ChooseAlgorithm());
  return product;
}

BlasProduct::~BlasProduct() {
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
  for (cublasLtMatrixLayout_t layout : {left_, right_, result_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
}

// A column-major matrix without gaps.
absl::Status BlasProduct::SetLayout(cublasLtMatrixLayout_t* layout, int64_t rows, int64_t columns,
                                    int64_t batch, int64_t stride, cudaDataType_t dtype) {
  RETURN_IF_LIBRARY_ERROR(cublasLtMatrixLayoutCreate(layout, dtype, static_cast<uint64_t>(rows),
                                                     static_cast<uint64_t>(columns), rows));
  if (batch == 1) return absl::OkStatus();
  RETURN_IF_ERROR(Set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch)));
  return Set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
}

absl::Status BlasProduct::SetUp(const ProductShape& shape, Epilogue epilogue) {
  RETURN_IF_LIBRARY_ERROR(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t left = shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, left));
  RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, right));
  RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(epilogue)));
  has_bias_ = epilogue != Epilogue::kNone && epilogue != Epilogue::kRelu;
  if (has_bias_) {
    // Any address, for the choice of an algorithm; each run sets its own.
    const auto somewhere = reinterpret_cast<const void*>(uintptr_t{256});
    RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere));
    const int32_t dtype = CUDA_R_32F;
    RETURN_IF_ERROR(Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dtype));
  }
  const auto [m, n, k] = std::make_tuple(shape.m, shape.n, shape.k);
  const cudaDataType_t dtype = shape.is_bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  // b is [k,n], or [n,k] to be transposed; read by columns the other way round.
  const int64_t stride = shape.shares_b ? 0 : k * n;
  RETURN_IF_ERROR(shape.transpose_b ? SetLayout(&left_, k, n, shape.batch, stride, dtype)
                                    : SetLayout(&left_, n, k, shape.batch, stride, dtype));
  RETURN_IF_ERROR(shape.transpose_a ? SetLayout(&right_, m, k, shape.batch, m * k, dtype)
                                    : SetLayout(&right_, k, m, shape.batch, m * k, dtype));
  return SetLayout(&result_, n, m, shape.batch, m * n, CUDA_R_32F);
}

absl::Status BlasProduct::ChooseAlgorithm() {
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_LIBRARY_ERROR(cublasLtMatmulPreferenceCreate(&preference));
  const absl::Status set = SetPreferences(preference);
  int found = 0;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (set.ok()) {
    status = cublasLtMatmulAlgoGetHeuristic(device_.blas(), operation_, left_, right_, result_,
                                            result_, preference, 1, &algorithm_, &found);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  RETURN_IF_ERROR(set);
  if (status == CUBLAS_STATUS_SUCCESS && found > 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("cuBLASLt has no algorithm: ", cublasLtGetStatusString(status)));
}

void BlasProduct::Run(const void* a, const void* b, float* c, const float* bias, void* workspace) {
  if (has_bias_) {
    device_.Note(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &bias, sizeof(bias)));
  }
  const float one = 1.0f, zero = 0.0f;
  device_.Note(cublasLtMatmul(device_.blas(), operation_, &one, b, left_, a, right_, &zero, c,
                              result_, c, result_, &algorithm_.algo, workspace,
                              algorithm_.workspaceSize, device_.compute().stream));
}

}  // namespace shoal::cuda
