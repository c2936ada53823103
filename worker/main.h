// The main function of a user's program with its own model:
//
//   shoal::ModelOutputs Model(shoal::GraphBuilder& builder, absl::Span<const shoal::Output> batch,
//                             bool is_training) { ... }
//
//   int main(int argc, char** argv) { return shoal::worker::Main(argc, argv, &Model); }
//
// `shoal train --worker_binary=PROGRAM` trains it. The chief and the parameter servers need no
// model and are shoal's own. See tests/examples/two_scale_network.cc.
#ifndef SHOAL_WORKER_MAIN_H_
#define SHOAL_WORKER_MAIN_H_

#include "ml/nn/model.h"
#include "worker/replica/model_factory.h"

namespace shoal::worker {

// Runs the command in the arguments, which shoal or a user gives:
//   worker    one worker, as `shoal worker`
//   eval      loss and accuracy of a checkpoint on the test split, as `shoal eval`
//   predict   predictions of a checkpoint's model for examples, as `shoal predict`
//   declare   a description of the model, for the launcher
// Blocks until the command is done and returns the exit code. The model is built once per clone, in
// this process only. Pass a ModelFactory if the model depends on the run or its data. With
// `dataset` the program also has the data, and `data.directory` and `data.format` of the run are
// not used.
int Main(int argc, char** argv, ModelFunction model);
int Main(int argc, char** argv, ModelFunction model, DatasetFactory dataset);
int Main(int argc, char** argv, ModelFactory model);

}  // namespace shoal::worker

#endif  // SHOAL_WORKER_MAIN_H_
