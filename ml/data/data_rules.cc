#include "ml/data/data_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Labels of a binary loss are 0 and 1.
constexpr int64_t kBinaryClasses = 2;

}  // namespace

int64_t LimitClasses(int64_t classes, const DataRules& rules) {
  return rules.binary_loss.empty() ? classes : std::min(classes, kBinaryClasses);
}

std::string WantedClass(int64_t num_classes, const DataRules& rules, absl::string_view remedy) {
  if (!rules.binary_loss.empty() && num_classes == kBinaryClasses) {
    return absl::StrCat("it must be 0 or 1, because model.loss is ", rules.binary_loss,
                        " (sparse_softmax_cross_entropy takes more classes)");
  }
  return absl::StrCat("it must be at least 0 and below the number of classes, ", num_classes,
                      remedy);
}

std::string WantedTarget(float target, const DataRules& rules) {
  if (rules.binary_loss.empty() || (target >= 0 && target <= 1)) return "";
  return absl::StrCat("it must be at least 0 and at most 1, because model.loss is ",
                      rules.binary_loss, " (mean_squared_error takes other numbers)");
}

std::string WrongWeight(absl::Span<const float> weights) {
  for (const float weight : weights) {
    if (weight >= 0) continue;
    return absl::StrCat("whose weight ", weight,
                        " is negative, but the model takes the mean of these rows; use weights of "
                        "at least 0, or pooling: sum");
  }
  return "";
}

}  // namespace shoal
