// Bags of rows and products of vectors.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {
namespace {

// Offsets of four bags among `count` indices: a bag of one, an empty one, a long one and the rest
// but two, which are in no bag.
std::vector<int64_t> Offsets(int64_t count) { return {0, 1, 1, count / 2, count - 2}; }

Tensor OffsetTensor(DataType dtype, const std::vector<int64_t>& offsets) {
  Tensor tensor(dtype, Shape({static_cast<int64_t>(offsets.size())}));
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (dtype == DataType::kInt32) {
      tensor.mutable_span<int32_t>()[i] = static_cast<int32_t>(offsets[i]);
    } else {
      tensor.mutable_span<int64_t>()[i] = offsets[i];
    }
  }
  return tensor;
}

Tensor Indices(CaseTable& table, DataType dtype, int64_t count, int64_t rows) {
  return CaseTable::Reference({"Cast", {}, {table.Labels(count, rows)}, {{dtype, {count}}}})[0];
}

void AddBags(CaseTable& table, DataType dtype, int64_t rows, int64_t dim, bool mean) {
  constexpr int64_t kCount = 150;
  const std::string name =
      absl::StrCat(DataTypeName(dtype), "_", rows, "x", dim, mean ? "_mean" : "_sum");
  const Attributes forward{{"mean", mean}};
  const Tensor offsets = OffsetTensor(dtype, Offsets(kCount));
  const Tensor indices = Indices(table, dtype, kCount, rows);
  const Tensor values = table.Uniform({rows, dim}), weights = table.Uniform({kCount}, 0.1, 2);
  const Shape y({4, dim});
  table.Add(name, {"EmbeddingBag", forward, {values, indices, offsets}, {F32(y)}}, kSum);
  table.Add(name + "_weighted",
            {"EmbeddingBag", forward, {values, indices, offsets, weights}, {F32(y)}}, kSum);
  const Ints is_mean = {mean ? 1 : 0, 0, mean ? 1 : 0}, weighted = {0, 0, 1};
  table.Add(name,
            {"EmbeddingBagGrad",
             {{"mean", Ints{is_mean[0]}}, {"weighted", Ints{0}}},
             {table.Uniform(y), indices, offsets},
             {F32({rows, dim})}},
            kSum);
  table.Add(name + "_three_features",
            {"EmbeddingBagGrad",
             {{"mean", is_mean}, {"weighted", weighted}},
             {table.Uniform(y), indices, offsets, table.Uniform({2, dim}),
              Indices(table, dtype, 9, rows), OffsetTensor(dtype, {0, 4, 9}), table.Uniform(y),
              Indices(table, dtype, kCount, rows), offsets, weights},
             {F32({rows, dim})}},
            kSum);
}

void AddVectors(CaseTable& table, int64_t batch, int64_t dim, size_t count) {
  const std::string name = absl::StrCat(batch, "x", dim, "_", count);
  const Shape shape({batch, dim});
  const auto pairs = static_cast<int64_t>(count * (count - 1) / 2);
  std::vector<Tensor> vectors;
  for (size_t i = 0; i < count; ++i) vectors.push_back(table.Uniform(shape));
  table.Add(name, {"PairwiseDots", {}, vectors, {F32({batch, pairs})}}, kSum);
  table.Add(name, {"FactorizationMachine", {}, vectors, {F32({batch, 1})}}, 1e-4);
  if (count > 6) return;  // The test runs all subsets of the outputs.
  const std::vector<TensorSpec> gradients(count, F32(shape));
  vectors.insert(vectors.begin(), table.Uniform({batch, pairs}));
  table.Add(name, {"PairwiseDotsGrad", {}, vectors, gradients}, kSum);
  vectors[0] = table.Uniform({batch, 1});
  table.Add(name, {"FactorizationMachineGrad", {}, vectors, gradients}, kSum);
}

}  // namespace

void AddFeatures(CaseTable& table) {
  for (DataType dtype : {DataType::kInt32, DataType::kInt64}) {
    for (const auto& [rows, dim] :
         {std::pair<int64_t, int64_t>{1, 1}, {40, 1}, {300, 16}, {7, 33}, {2000, 16}}) {
      for (const bool mean : {false, true}) AddBags(table, dtype, rows, dim, mean);
    }
  }
  for (const auto& [batch, dim] :
       {std::pair<int64_t, int64_t>{1, 1}, {5, 16}, {700, 16}, {3, 37}}) {
    for (const size_t count : {2, 3, 6, 9, 27, 40}) {
      if (batch < 100 || count < 30) AddVectors(table, batch, dim, count);
    }
  }
}

}  // namespace shoal::conformance
