// A program with a model and a data set of its own: examples with two named inputs and a target.
// Build it, then:
//
//   shoal train --worker_binary=bazel-bin/tests/examples/own_data --num_epochs=5
//
// `shoal eval` and `shoal predict` with the run's --out use the test split below.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "ml/tensor/tensor.h"
#include "worker/main.h"

namespace {

using shoal::GraphBuilder;
using shoal::Output;

// Makes what a reader of files would return: each person has 2 numbers, each place one, and the
// rating to predict is a function of them.
absl::StatusOr<std::unique_ptr<shoal::Dataset>> OpenRatings(const shoal::v1::RunConfig& /*run*/,
                                                            shoal::DataSplit split) {
  const int64_t examples = split == shoal::DataSplit::kTrain ? 4000 : 500;
  shoal::Tensor people(shoal::DataType::kFloat32, {examples, 2});
  shoal::Tensor places(shoal::DataType::kFloat32, {examples, 1});
  shoal::Tensor ratings(shoal::DataType::kFloat32, {examples, 1});
  const int64_t first = split == shoal::DataSplit::kTrain ? 0 : 4000;
  for (int64_t i = 0; i < examples; ++i) {
    const auto at = static_cast<size_t>(i);
    const float age = static_cast<float>((first + i) % 89) / 89;
    const float visits = static_cast<float>((first + i) % 7) / 7;
    const float distance = static_cast<float>((first + i) % 31) / 31;
    people.mutable_span<float>()[2 * at] = age;
    people.mutable_span<float>()[2 * at + 1] = visits;
    places.mutable_span<float>()[at] = distance;
    ratings.mutable_span<float>()[at] = 1 + visits - distance * age;
  }
  std::vector<shoal::InMemoryDataset::Field> fields = {
      {"person", people}, {"place", places}, {"rating", ratings}};
  fields.back().is_target = true;
  return shoal::InMemoryDataset::Create(std::move(fields));
}

absl::StatusOr<shoal::ModelFunction> MakeModel(const shoal::v1::RunConfig& /*run*/,
                                               const std::vector<shoal::FieldSpec>& fields,
                                               int64_t /*classes*/) {
  return [fields](GraphBuilder& builder, absl::Span<const Output> batch, bool /*is_training*/) {
    const Output person = shoal::FindField(fields, batch, "person").values;
    const Output place = shoal::FindField(fields, batch, "place").values;
    shoal::DenseOptions hidden;
    hidden.units = 16;
    hidden.activation = shoal::Activation::kRelu;
    hidden.scope = "hidden";
    shoal::DenseOptions last;
    last.units = 1;
    last.scope = "rating";
    shoal::ModelOutputs outputs;
    const Output both = shoal::ops::Concat(builder, {person, place}, 1);
    outputs.predictions = shoal::Dense(builder, shoal::Dense(builder, both, hidden), last);
    outputs.loss = shoal::AddLoss(builder, shoal::LossKind::kMeanSquaredError, outputs.predictions,
                                  shoal::FindField(fields, batch, "rating").values);
    return outputs;
  };
}

}  // namespace

int main(int argc, char** argv) {
  return shoal::worker::Main(argc, argv, shoal::ModelFactory(&MakeModel, &OpenRatings));
}
