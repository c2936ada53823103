// DataRules say what a model wants of the values of its data, beyond their types and shapes.
// Readers check them, because they know the file and the line of a value.
#ifndef SHOAL_ML_DATA_DATA_RULES_H_
#define SHOAL_ML_DATA_DATA_RULES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

struct DataRules {
  // The name of the model's loss if it compares one output with a label that is 0 or 1, such as
  // "sigmoid_cross_entropy". Empty: the labels are classes or numbers of any size.
  std::string binary_loss;
  // Returns whether the model takes the mean of the rows of this field's ids. Null: of no field.
  std::function<bool(absl::string_view field)> takes_mean;

  bool TakesMean(absl::string_view field) const {
    return takes_mean != nullptr && takes_mean(field);
  }
};

// Returns the number of classes that labels may have, of `classes` that the data may have.
int64_t LimitClasses(int64_t classes, const DataRules& rules);

// Returns what a label must be that is not in [0, num_classes), for the end of an error. `remedy`
// says how the user gets more classes; it is left out if the loss allows no more.
std::string WantedClass(int64_t num_classes, const DataRules& rules, absl::string_view remedy);

// Returns what the number must be that one output of the model is compared with, for the end of an
// error, or "" if the loss takes it.
std::string WantedTarget(float target, const DataRules& rules);

// Returns what is wrong with the weights of an example's ids in a field of which the model takes
// the mean, and the remedy, or "". The mean divides by the sum of the weights, so weights of both
// signs would multiply rows by any number.
std::string WrongWeight(absl::Span<const float> weights);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATA_RULES_H_
