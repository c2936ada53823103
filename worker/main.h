// The main function of a program with a model of its own, outside our folders:
//
//   shoal::ModelOutputs Model(shoal::GraphBuilder& builder, absl::Span<const shoal::Output> batch,
//                             bool is_training) { ... }
//
//   int main(int argc, char** argv) { return shoal::worker::Main(argc, argv, &Model); }
//
// `shoal train --worker_binary=PROGRAM` trains it: chief and parameter servers are shoal's own,
// which need no model. See tests/examples/two_scale_network.cc.
#ifndef SHOAL_WORKER_MAIN_H_
#define SHOAL_WORKER_MAIN_H_

#include "ml/nn/model.h"
#include "worker/model_factory.h"

namespace shoal::worker {

// The commands that shoal starts it with, or people do:
//   worker    one worker, as `shoal worker`
//   eval      loss and accuracy of a checkpoint on the test split, as `shoal eval`
//   predict   what a checkpoint's model says of examples, as `shoal predict`
//   declare   what the model is, for a launcher
// Blocks until the command is done; returns the exit code. The model is built once per clone, in
// this process only. A factory where the model depends on the run or its data.
int Main(int argc, char** argv, ModelFunction model);
int Main(int argc, char** argv, ModelFactory model);

}  // namespace shoal::worker

#endif  // SHOAL_WORKER_MAIN_H_
