#ifndef SHOAL_WORKER_WORKER_METRICS_H_
#define SHOAL_WORKER_WORKER_METRICS_H_

#include "runtime/observability/metric.h"

namespace shoal {

class MetricPage;

// Counters of a worker; its trainer adds to them on the path of a step.
struct WorkerMetrics {
  MetricCounter batches;
  MetricCounter examples;
  MetricHistogram step_seconds{BoundsOfSeconds()};     // A batch: read, computed, pushes begun.
  MetricHistogram read_seconds{BoundsOfSeconds()};     // Of it, until its examples were there.
  MetricHistogram barrier_seconds{BoundsOfSeconds()};  // Between work: for values and for others.
  MetricCounter evaluation_blocks;
  MetricCounter non_finite_batches;
  MetricGauge step;  // That it is at.
};

void CollectWorker(const WorkerMetrics& metrics, MetricPage* page);

}  // namespace shoal

#endif  // SHOAL_WORKER_WORKER_METRICS_H_
