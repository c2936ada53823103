// What a chief shows of itself: the run's figures for /metrics and its state for /statusz.
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

// Counted by the RunRecorder while the run goes on; the rest is asked of the chief.
struct ChiefMetrics {
  MetricCounter steps;  // Since this chief began; a rollback takes none back.
  MetricCounter examples;
  MetricHistogram staleness{BoundsOfSteps()};
  MetricGauge loss{std::numeric_limits<double>::quiet_NaN()};  // Of the newest step; NaN: none yet.
  MetricGauge accuracy{std::numeric_limits<double>::quiet_NaN()};
  MetricGauge learning_rate;
  MetricGauge evaluation_loss{std::numeric_limits<double>::quiet_NaN()};
  MetricGauge evaluation_accuracy{std::numeric_limits<double>::quiet_NaN()};
  MetricCounter non_finite_steps;  // Updates whose loss is not finite.
  MetricCounter rollbacks;
  MetricCounter checkpoints;
  MetricHistogram checkpoint_seconds{BoundsOfSeconds()};
};

void CollectChief(const ChiefMetrics& metrics, const v1::GetRunStatusResponse& run,
                  MetricPage* page);

// Ready: every task is registered and every ps has loaded.
TaskStatus ChiefStatus(const v1::GetRunStatusResponse& run, double now_unix_seconds);

}  // namespace shoal

#endif  // SHOAL_CHIEF_CHIEF_METRICS_H_
