// The names of rows and columns of predictions, and texts that show predictions with these names.
#ifndef SHOAL_WORKER_PREDICTION_PREDICTION_LABELS_H_
#define SHOAL_WORKER_PREDICTION_PREDICTION_LABELS_H_

#include <string>
#include <vector>

#include "ml/data/dataset.h"
#include "ml/tensor/tensor.h"

namespace shoal {

struct PredictionLabels {
  std::vector<std::string> examples;  // The file of each row; empty if rows are not files.
  std::vector<std::string> classes;   // One for each column; empty if unknown.
  bool are_classes = false;           // The column of the largest output is the predicted class.
};

// Returns the labels. `class_names` are used only if there are as many as the predictions have
// columns.
PredictionLabels LabelsFor(const Tensor& predictions, const Dataset& data,
                           std::vector<std::string> class_names);

// Returns why the names of the classes are not used: there are more or fewer than outputs. Returns
// "" if they are used or there are none.
std::string NoticeOfUnusedNames(const Tensor& predictions,
                                const std::vector<std::string>& class_names);

// Returns one line per row, with numbers of nine digits, from which the same floats can be read
// again. The first line names the columns: `file` if rows are files; the classes or, if they have
// no names, `output_0` and so on; and, if classes have names, `class`, the one with the largest
// output.
std::string PredictionsCsv(const Tensor& predictions, const PredictionLabels& labels);

// Returns "photo.png: cat\n", or "photo.png: class 3\n" if classes have no names, for each of the
// first ten examples, then "and 20 more\n" if there are more; with the output, "photo.png: cat
// 0.93\n", if that is a probability. Examples that are not files are numbered: "example 0: cat\n".
// Returns "" if columns are not classes.
std::string PredictedClasses(const Tensor& predictions, const PredictionLabels& labels,
                             bool are_probabilities);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_PREDICTION_LABELS_H_
