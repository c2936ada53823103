// The chief's metrics for /metrics and its state for /statusz.
#ifndef SHOAL_CHIEF_CHIEF_METRICS_H_
#define SHOAL_CHIEF_CHIEF_METRICS_H_

#include <limits>

#include "runtime/observability/metric.h"
#include "runtime/observability/task_monitor.h"

namespace shoal {

class MetricPage;
namespace v1 {
class GetRunStatusResponse;
}

// The metrics that the RunRecorder counts during the run. CollectChief takes the other ones from
// the chief's status.
struct ChiefMetrics {
  MetricCounter steps;  // Counts from the start of this chief; a rollback does not reduce it.
  MetricCounter examples;
  MetricHistogram staleness{BoundsOfSteps()};
  // The loss of the newest step; NaN: there is none yet.
  MetricGauge loss{std::numeric_limits<double>::quiet_NaN()};
  MetricGauge accuracy{std::numeric_limits<double>::quiet_NaN()};
  MetricGauge learning_rate;
  MetricGauge evaluation_loss{std::numeric_limits<double>::quiet_NaN()};
  MetricGauge evaluation_accuracy{std::numeric_limits<double>::quiet_NaN()};
  // The model's other metrics: in the newest step that has them, and in the last evaluation.
  NamedGauges named;
  NamedGauges evaluation_named;
  MetricCounter non_finite_steps;  // Updates whose loss is not finite.
  MetricCounter rollbacks;
  MetricCounter checkpoints;
  MetricHistogram checkpoint_seconds{BoundsOfSeconds()};
};

void CollectChief(const ChiefMetrics& metrics, const v1::GetRunStatusResponse& run,
                  MetricPage* page);

// Returns the chief's status for /statusz. It is ready if every task is registered and every ps has
// loaded.
TaskStatus ChiefStatus(const v1::GetRunStatusResponse& run, double now_unix_seconds);

}  // namespace shoal

#endif  // SHOAL_CHIEF_CHIEF_METRICS_H_
