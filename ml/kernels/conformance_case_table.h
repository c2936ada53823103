// Builds the cases of the conformance test. One function for each family of ops adds its cases to a
// table. Private to this folder.
#ifndef SHOAL_ML_KERNELS_CONFORMANCE_CASE_TABLE_H_
#define SHOAL_ML_KERNELS_CONFORMANCE_CASE_TABLE_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ml/kernels/conformance_cases.h"

namespace shoal::conformance {

using Ints = std::vector<int64_t>;

// Tolerances, as in ConformanceCase::tolerance: for one elementwise operation, for an exponential
// or logarithm, and for a sum of many terms.
inline constexpr double kExact = 1e-7;
inline constexpr double kTranscendental = 1e-6;
inline constexpr double kSum = 5e-6;
// The tolerance of convolutions; Winograd's transforms lose about two digits.
inline constexpr double kConvolution = 1e-4;
// The tolerance of results that were rounded to bfloat16.
inline constexpr double kBfloat16 = 1.0 / 256;

inline TensorSpec F32(const Shape& shape) { return {DataType::kFloat32, shape}; }
inline TensorSpec Bytes(const Shape& shape) { return {DataType::kUint8, shape}; }

// Returns "2x3" or, without dimensions, "scalar".
std::string NameOf(const Shape& shape);

// Collects the cases. All values come from one sequence of random numbers with a fixed seed.
class CaseTable {
 public:
  Tensor Uniform(const Shape& shape, double low = -1, double high = 1);
  // Returns int32 [n], each in [0, classes).
  Tensor Labels(int64_t n, int64_t classes);
  Tensor ZeroOrOne(const Shape& shape);
  Tensor Booleans(const Shape& shape);
  // Returns non-negative rows whose sum is 1, as labels of softmax cross-entropy.
  Tensor Distributions(const Shape& shape);
  // Returns a random number in [0, bound).
  int64_t Below(int64_t bound);

  // Returns the outputs of the reference kernel.
  static std::vector<Tensor> Reference(const OpCall& call);

  // Adds the case "<op>_<what>"; see ConformanceCase for the other arguments.
  void Add(const std::string& what, OpCall call, double tolerance, double byte_mismatch = 0);
  // Adds a case whose kernels may refuse to run without output 0.
  void AddNeedingFirstOutput(const std::string& what, OpCall call, double tolerance);

  // Sets the tolerance of the case added last: see ConformanceCase::device_tolerance.
  void AllowRoundedOutputs() { cases_.back().device_tolerance = kBfloat16; }

  const std::vector<ConformanceCase>& cases() const { return cases_; }
  std::vector<ConformanceCase> Take() { return std::move(cases_); }

 private:
  std::mt19937 random_{20240229};
  std::vector<ConformanceCase> cases_;
};

// conformance_activation_cases.cc
void AddActivations(CaseTable& table);
void AddPowers(CaseTable& table);
// conformance_bfloat16_cases.cc. The first adds a bfloat16 version of every product in the table,
// so call it after the others.
void AddBfloat16Products(CaseTable& table);
void AddBfloat16Conversions(CaseTable& table);
// conformance_elementwise_cases.cc
void AddElementwise(CaseTable& table);
void AddBroadcasting(CaseTable& table);
// conformance_feature_cases.cc
void AddFeatures(CaseTable& table);
// conformance_image_cases.cc
void AddConvolutions(CaseTable& table);
void AddConvolutionsWithPool(CaseTable& table);
void AddConvolutionsWithNorm(CaseTable& table);
void AddPools(CaseTable& table);
void AddGlobalPools(CaseTable& table);
void AddTransposedConvolutions(CaseTable& table);
void AddOtherNorms(CaseTable& table);
void AddNormalization(CaseTable& table);
// conformance_long_cases.cc
void AddLongReductions(CaseTable& table);
// conformance_loss_cases.cc
void AddSoftmaxes(CaseTable& table);
void AddLosses(CaseTable& table);
// conformance_matrix_cases.cc
void AddMatrices(CaseTable& table);
void AddChainedDenseGradients(CaseTable& table);
// conformance_selection_cases.cc
void AddSelections(CaseTable& table);
void AddBoxes(CaseTable& table);
void AddLookups(CaseTable& table);
// conformance_shape_cases.cc
void AddReductions(CaseTable& table);
void AddMoves(CaseTable& table);
// conformance_nan_cases.cc
void AddNans(CaseTable& table);

}  // namespace shoal::conformance

#endif  // SHOAL_ML_KERNELS_CONFORMANCE_CASE_TABLE_H_
