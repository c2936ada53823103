#include "ml/data/ids/record_ids.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/data/records/tf_example.pb.h"

namespace shoal {
namespace {

absl::Status Odd(const std::string& name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("feature \"", name, "\" ", what));
}

// Checks that the values of the feature are of the type that the column has.
absl::Status CheckType(const tf::Feature& feature, const IdColumn& ids) {
  if (ids.words ? feature.has_bytes_list() : feature.has_int64_list()) return absl::OkStatus();
  const char* has = feature.has_float_list()   ? "floats"
                    : feature.has_bytes_list() ? "byte strings"
                                               : "integers";
  const char* remedy = feature.has_float_list()   ? "name floats in data.numbers"
                       : feature.has_bytes_list() ? "set words: true"
                                                  : "drop words";
  return Odd(ids.column, absl::StrCat("has ", has, ", not ",
                                      ids.words ? "the byte strings of words" : "integers", "; ",
                                      remedy, " (", ids.entry, ")"));
}

}  // namespace

const tf::Feature* FindValues(const tf::Example& example, const std::string& name) {
  const auto& features = example.features().feature();
  const auto found = features.find(name);
  if (found == features.end()) return nullptr;
  const tf::Feature& feature = found->second;
  const bool has_values = feature.int64_list().value_size() > 0 ||
                          feature.bytes_list().value_size() > 0 ||
                          feature.float_list().value_size() > 0;
  return has_values ? &feature : nullptr;
}

absl::Status AddRecordIds(const tf::Example& example, const IdColumn& ids, IdList* list) {
  const tf::Feature* const feature = FindValues(example, ids.column);
  const tf::Feature* const weights =
      ids.weights.empty() ? nullptr : FindValues(example, ids.weights);
  if (feature != nullptr) RETURN_IF_ERROR(CheckType(*feature, ids));
  const int count = feature == nullptr ? 0
                    : ids.words        ? feature->bytes_list().value_size()
                                       : feature->int64_list().value_size();
  const int num_weights = weights == nullptr ? 0 : weights->float_list().value_size();
  if (!ids.weights.empty() && num_weights != count) {
    return Odd(ids.weights,
               absl::StrCat("has ", num_weights, " floats, but feature \"", ids.column, "\" has ",
                            count, " ids; write one weight for each id (", ids.entry, ".weights)"));
  }
  for (int i = 0; i < count; ++i) {
    const float weight = weights == nullptr ? 1 : weights->float_list().value(i);
    const std::string wrong = ids.words ? AddWord(feature->bytes_list().value(i), weight, ids, list)
                                        : AddId(feature->int64_list().value(i), weight, ids, list);
    if (wrong.empty()) continue;
    return Odd(
        ids.column,
        absl::StrCat("has ",
                     ids.words ? "a text" : absl::StrCat("the id ", feature->int64_list().value(i)),
                     ", ", wrong));
  }
  return absl::OkStatus();
}

absl::Status AddRecordNumbers(const tf::Example& example, const std::string& name,
                              std::vector<float>* numbers) {
  const tf::Feature* const feature = FindValues(example, name);
  if (feature == nullptr) {
    return Odd(name, "is missing; write a number for it, or drop it from data.numbers");
  }
  if (feature->has_bytes_list()) {
    return Odd(name,
               "has byte strings, not numbers; name it in data.ids, or drop it from "
               "data.numbers");
  }
  const size_t first = numbers->size();
  for (const int64_t value : feature->int64_list().value()) {
    numbers->push_back(static_cast<float>(value));
  }
  for (const float value : feature->float_list().value()) numbers->push_back(value);
  for (size_t i = first; i < numbers->size(); ++i) {
    if (std::isfinite((*numbers)[i])) continue;
    return Odd(name, absl::StrCat("has the value ", (*numbers)[i],
                                  ", which is not finite; correct or remove the record"));
  }
  return absl::OkStatus();
}

}  // namespace shoal
