// A program with a data set and a model of its own whose examples have lists of ids with weights:
// the films that a person has rated, read through a table of the parameter servers, say whether the
// person likes another film. Build it, then:
//
//   shoal train --worker_binary=bazel-bin/tests/examples/own_ids --num_epochs=4
//
// Settings of the table "film" may be in the run file: docs/tables.md.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/data/ragged_rows.h"
#include "ml/graph/graph_builder.h"
#include "ml/nn/feature_layers.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "ml/tensor/tensor.h"
#include "worker/main.h"

namespace {

using shoal::GraphBuilder;
using shoal::Output;

// Makes what a reader of files would return. Every fifth person has rated nothing; the others like
// the film if their ratings of even films are higher than those of odd ones.
absl::StatusOr<std::unique_ptr<shoal::Dataset>> OpenRatings(const shoal::v1::RunConfig& /*run*/,
                                                            shoal::DataSplit split) {
  const int64_t examples = split == shoal::DataSplit::kTrain ? 4000 : 500;
  const uint64_t first = split == shoal::DataSplit::kTrain ? 1 : 5000;
  shoal::RaggedRows rated(/*has_weights=*/true);
  shoal::Tensor likes(shoal::DataType::kFloat32, {examples, 1});
  for (int64_t i = 0; i < examples; ++i) {
    uint64_t draw = (first + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15u;
    float sum = 0;
    for (uint64_t k = 0; k < (first + static_cast<uint64_t>(i)) % 5; ++k) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      const auto film = static_cast<int64_t>(draw >> 33) % 200;
      const float rating = static_cast<float>(draw >> 60) / 16;
      rated.AddKey(film, rating);
      sum += film % 2 == 0 ? rating : -rating;
    }
    rated.EndExample();
    likes.mutable_span<float>()[static_cast<size_t>(i)] = sum > 0 ? 1.0f : 0.0f;
  }
  std::vector<shoal::InMemoryDataset::Field> fields(2);
  fields[0].name = "rated";
  fields[0].ragged = std::move(rated);
  fields[1].name = "likes";
  fields[1].rows = likes;
  fields[1].is_target = true;
  return shoal::InMemoryDataset::Create(std::move(fields));
}

absl::StatusOr<shoal::ModelFunction> MakeModel(const shoal::v1::RunConfig& /*run*/,
                                               const std::vector<shoal::FieldSpec>& fields,
                                               int64_t /*classes*/) {
  return [fields](GraphBuilder& builder, absl::Span<const Output> batch, bool /*is_training*/) {
    shoal::TableEmbeddingOptions films;
    films.table = "film";
    films.column = "rated";
    films.dim = 4;
    const Output person =
        shoal::TableEmbedding(builder, shoal::FindField(fields, batch, "rated"), films);
    shoal::DenseOptions last;
    last.units = 1;
    last.scope = "likes";
    shoal::ModelOutputs outputs;
    outputs.predictions = shoal::Dense(builder, person, last);
    outputs.loss =
        shoal::AddLoss(builder, shoal::LossKind::kSigmoidCrossEntropy, outputs.predictions,
                       shoal::FindField(fields, batch, "likes").values);
    return outputs;
  };
}

}  // namespace

int main(int argc, char** argv) {
  return shoal::worker::Main(argc, argv, shoal::ModelFactory(&MakeModel, &OpenRatings));
}
