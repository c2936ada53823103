#include "ml/data/data_defaults.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {

void ResolveDataDefaults(v1::DataConfig* config) {
  if (config->format() == v1::DataConfig::FORMAT_UNSPECIFIED && config->directory().empty()) {
    config->set_format(v1::DataConfig::FORMAT_IDX);
  }
  if (config->format() == v1::DataConfig::FORMAT_IDX && config->directory().empty()) {
    config->set_directory(kDefaultDataDirectory);
  }
  if (config->format() == v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION ||
      config->format() == v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION) {
    if (config->train_examples() == 0) config->set_train_examples(10000);
    if (config->test_examples() == 0) config->set_test_examples(2000);
    if (config->features() == 0) config->set_features(600);
    if (config->classes() == 0) config->set_classes(10);
  }
  if (config->format() == v1::DataConfig::FORMAT_CLICKS_SYNTHETIC) {
    if (config->train_examples() == 0) config->set_train_examples(1000000);
    if (config->test_examples() == 0) config->set_test_examples(100000);
    v1::ClicksOptions* clicks = config->mutable_clicks();
    if (clicks->scale() == 0) clicks->set_scale(1);
    if (clicks->days() == 0) clicks->set_days(7);
  }
}

bool NeedsNoFiles(const v1::DataConfig& config) {
  return config.format() == v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION ||
         config.format() == v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION ||
         config.format() == v1::DataConfig::FORMAT_CLICKS_SYNTHETIC;
}

}  // namespace shoal
