#ifndef SHOAL_WORKER_REPLICA_MODEL_FACTORY_H_
#define SHOAL_WORKER_REPLICA_MODEL_FACTORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/data/dataset.h"
#include "ml/data/dataset_factory.h"
#include "ml/nn/model.h"

namespace shoal {

namespace v1 {
class RunConfig;
}

// Opens a split of a program's own data set. NotFound: there is no test split.
using DatasetFactory = std::function<absl::StatusOr<std::unique_ptr<Dataset>>(
    const v1::RunConfig& run, DataSplit split)>;

// Returns what a run's model wants of the values of the run file's data.
using DataRulesFunction = std::function<DataRules(const v1::RunConfig& run)>;

// Makes the model for batches of these fields, and opens the data if the program has data of its
// own. `classes` is the number of classes if the labels are classes. An error ends the run and is
// printed as one line.
class ModelFactory {
 public:
  using Function = std::function<absl::StatusOr<ModelFunction>(
      const v1::RunConfig& run, const std::vector<FieldSpec>& fields, int64_t classes)>;

  // Any function of that type is a factory. Without `dataset` the data are those of the run file,
  // whose values `rules` restricts if it is given.
  template <typename F, typename = std::enable_if_t<std::is_convertible_v<F, Function> &&
                                                    !std::is_same_v<F, ModelFactory>>>
  ModelFactory(F make, DatasetFactory dataset = nullptr, DataRulesFunction rules = nullptr)
      : make_(std::move(make)), dataset_(std::move(dataset)), rules_(std::move(rules)) {}

  absl::StatusOr<ModelFunction> operator()(const v1::RunConfig& run,
                                           const std::vector<FieldSpec>& fields,
                                           int64_t classes) const {
    return make_(run, fields, classes);
  }

  // Null: the data are those of the run file.
  const DatasetFactory& dataset() const { return dataset_; }

  DataRules RulesFor(const v1::RunConfig& run) const {
    return rules_ == nullptr ? DataRules() : rules_(run);
  }

 private:
  Function make_;
  DatasetFactory dataset_;
  DataRulesFunction rules_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_MODEL_FACTORY_H_
