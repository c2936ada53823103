#include "tests/examples/model_deploy_example.h"

#include <vector>

#include "base/status_macros.h"
#include "ml/deploy/model_deploy.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "proto/v1/optimizer_config.pb.h"
#include "worker/replica/training_loop.h"

namespace shoal {
namespace {

Output CreateNetwork(GraphBuilder& builder, Output images) {
  Output net = Dense(builder, images, {16, Activation::kRelu});
  return Dense(builder, net, {1, Activation::kSigmoid});
}

}  // namespace

absl::StatusOr<float> RunModelDeployExample(const Dataset& dataset,
                                            const ModelDeployExampleOptions& options) {
  Graph graph;
  GraphBuilder builder(&graph);

  // Set up the deployment.
  DeploymentConfigOptions deployment;
  deployment.num_clones = 2;
  deployment.clone_on_cpu = true;
  ASSIGN_OR_RETURN(const DeploymentConfig config, DeploymentConfig::Create(deployment));

  // Create the global step on the device storing the variables.
  {
    const auto device = builder.WithDevice(config.variables_device());
    builder.GetOrCreateGlobalStep();
  }

  // Define the inputs.
  InputQueue inputs_queue(dataset.fields());

  // Define the optimizer.
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(options.learning_rate);
  optimizer.mutable_momentum()->set_momentum(options.momentum);

  // Define the model including the loss.
  const auto model_fn = [&](GraphBuilder& clone) -> std::vector<Output> {
    std::vector<Output> batch;
    {
      const auto device = clone.WithDevice(config.inputs_device());
      batch = inputs_queue.Dequeue(clone);
    }
    const Output predictions = CreateNetwork(clone, batch[0]);
    AddLogLoss(clone, predictions, batch[1]);
    return {predictions};
  };
  ASSIGN_OR_RETURN(const DeployedModel model_dp, Deploy(config, builder, model_fn, &optimizer,
                                                        /*summarize_gradients=*/true));

  // Run training.
  TrainingLoopOptions training;
  training.batch_size = options.batch_size;
  training.log_directory = options.log_directory;
  ASSIGN_OR_RETURN(const auto loop,
                   TrainingLoop::Create(graph, model_dp, inputs_queue, dataset, training));
  return loop->Train(options.num_steps);
}

}  // namespace shoal
