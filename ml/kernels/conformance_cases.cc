#include "ml/kernels/conformance_cases.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal {

std::vector<ConformanceCase> ConformanceCases() {
  conformance::CaseTable table;
  conformance::AddElementwise(table);
  conformance::AddBroadcasting(table);
  conformance::AddReductions(table);
  conformance::AddMatrices(table);
  conformance::AddConvolutions(table);
  conformance::AddConvolutionsWithPool(table);
  conformance::AddConvolutionsWithNorm(table);
  conformance::AddPools(table);
  conformance::AddGlobalPools(table);
  conformance::AddTransposedConvolutions(table);
  conformance::AddOtherNorms(table);
  conformance::AddSoftmaxes(table);
  conformance::AddLosses(table);
  conformance::AddNormalization(table);
  conformance::AddMoves(table);
  conformance::AddActivations(table);
  conformance::AddPowers(table);
  conformance::AddSelections(table);
  conformance::AddBoxes(table);
  conformance::AddLookups(table);
  conformance::AddLongReductions(table);
  conformance::AddChainedDenseGradients(table);
  conformance::AddBfloat16Products(table);
  conformance::AddBfloat16Conversions(table);
  conformance::AddFeatures(table);
  return table.Take();
}

std::vector<ConformanceCase> NanCases() {
  conformance::CaseTable table;
  conformance::AddNans(table);
  return table.Take();
}

}  // namespace shoal
