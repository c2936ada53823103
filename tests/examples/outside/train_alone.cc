// A program that trains by itself: two clones of a small network on data that it generates.
//
//   train_alone DIR [DEVICE...]
//
// It makes checkpoints in DIR, and continues from the newest one when it is started again. The
// devices are "/gpu:0 /gpu:1", for example, and two CPUs if there are none on the command line.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "ml/data/in_memory_dataset.h"
#include "ml/deploy/model_deploy.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "proto/v1/optimizer_config.pb.h"
#include "worker/replica/training_loop.h"

namespace {

// Four inputs, and whether the first two are larger than the last two.
absl::StatusOr<std::unique_ptr<shoal::InMemoryDataset>> Comparisons(int64_t examples) {
  shoal::Tensor inputs(shoal::DataType::kFloat32, {examples, 4});
  shoal::Tensor labels(shoal::DataType::kFloat32, {examples, 1});
  std::mt19937 random(1);
  for (int64_t i = 0; i < examples; ++i) {
    float x[4];
    for (int k = 0; k < 4; ++k) {
      x[k] = static_cast<float>(random() % 1000) / 1000.0f;
      inputs.mutable_span<float>()[i * 4 + k] = x[k];
    }
    labels.mutable_span<float>()[i] = x[0] + x[1] > x[2] + x[3] ? 1.0f : 0.0f;
  }
  return shoal::InMemoryDataset::Create({{"inputs", inputs}, {"labels", labels}});
}

absl::StatusOr<float> Train(const std::string& directory, const std::vector<std::string>& devices) {
  absl::StatusOr<std::unique_ptr<shoal::InMemoryDataset>> data = Comparisons(4096);
  if (!data.ok()) return data.status();
  shoal::Graph graph;
  shoal::GraphBuilder builder(&graph);
  shoal::DeploymentConfigOptions deployment;
  deployment.num_clones = static_cast<int>(devices.size());
  deployment.clone_devices = devices;
  absl::StatusOr<shoal::DeploymentConfig> config = shoal::DeploymentConfig::Create(deployment);
  if (!config.ok()) return config.status();

  shoal::InputQueue queue((*data)->fields());
  shoal::v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(0.01);
  optimizer.mutable_adam();
  const auto clone = [&queue](shoal::GraphBuilder& clone_builder) {
    const std::vector<shoal::Output> batch = queue.Dequeue(clone_builder);
    shoal::DenseOptions hidden;
    hidden.units = 16;
    hidden.activation = shoal::Activation::kRelu;
    shoal::DenseOptions last;
    last.units = 1;
    last.activation = shoal::Activation::kSigmoid;
    const shoal::Output predictions =
        shoal::Dense(clone_builder, shoal::Dense(clone_builder, batch[0], hidden), last);
    shoal::AddLogLoss(clone_builder, predictions, batch[1]);
    return std::vector<shoal::Output>{predictions};
  };
  absl::StatusOr<shoal::DeployedModel> model = shoal::Deploy(*config, builder, clone, &optimizer);
  if (!model.ok()) return model.status();

  shoal::TrainingLoopOptions options;
  options.devices = devices;
  options.checkpoint_directory = directory;
  absl::StatusOr<std::unique_ptr<shoal::TrainingLoop>> loop =
      shoal::TrainingLoop::Create(graph, *model, queue, **data, options);
  if (!loop.ok()) return loop.status();
  std::printf("begins at step %lld\n", static_cast<long long>((*loop)->step()));
  return (*loop)->TrainTo(400);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: train_alone DIR [DEVICE...]\n");
    return 64;
  }
  std::vector<std::string> devices(argv + 2, argv + argc);
  if (devices.empty()) devices = {"/cpu:0", "/cpu:1"};
  const absl::StatusOr<float> loss = Train(argv[1], devices);
  if (!loss.ok()) {
    std::fprintf(stderr, "train_alone: %s\n", std::string(loss.status().message()).c_str());
    return 1;
  }
  if (std::isnan(*loss)) {
    std::printf("all steps were taken before\n");
    return 0;
  }
  std::printf("loss %.4f\n", static_cast<double>(*loss));
  return *loss < 0.2f ? 0 : 1;
}
