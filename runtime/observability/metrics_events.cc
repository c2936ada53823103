#include "runtime/observability/metrics_events.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

void AddIfPresent(absl::string_view tag, const std::optional<double>& value,
                  std::vector<ScalarPoint>* points) {
  if (value.has_value()) points->push_back({tag, *value});
}

}  // namespace

MetricsEvents::MetricsEvents(FileSystem* file_system, const Clock* clock,
                             const std::string& directory, uint64_t every)
    : every_(every),
      train_(file_system, clock, absl::StrCat(directory, "/train")),
      test_(file_system, clock, absl::StrCat(directory, "/test")) {}

absl::Status MetricsEvents::Record(const StepMetrics& metrics) {
  absl::Status status;
  if (last_ == 0 || metrics.step % every_ == 0 || metrics.step >= last_ + every_) {
    last_ = metrics.step;
    std::vector<ScalarPoint> points = {{"loss", metrics.loss}};
    AddIfPresent("accuracy", metrics.accuracy, &points);
    points.push_back({"learning_rate", metrics.learning_rate});
    points.push_back({"examples_per_second", metrics.examples_per_second});
    if (metrics.staleness.has_value()) {
      points.push_back({"staleness", static_cast<double>(*metrics.staleness)});
    }
    for (const auto& [name, value] : metrics.named) AddIfPresent(name, value, &points);
    status = train_.AddScalars(metrics.step, points);
  }
  std::vector<ScalarPoint> tested;
  AddIfPresent("loss", metrics.eval_loss, &tested);
  AddIfPresent("accuracy", metrics.eval_accuracy, &tested);
  for (const auto& [name, value] : metrics.eval_named) AddIfPresent(name, value, &tested);
  status.Update(test_.AddScalars(metrics.step, tested));
  status.Update(Flush());
  return status;
}

void MetricsEvents::GoBack() {
  last_ = 0;
  train_.Restart();
  test_.Restart();
}

absl::Status MetricsEvents::Flush() {
  absl::Status status = train_.Flush();
  status.Update(test_.Flush());
  return status;
}

}  // namespace shoal
