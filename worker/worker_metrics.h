#ifndef SHOAL_WORKER_WORKER_METRICS_H_
#define SHOAL_WORKER_WORKER_METRICS_H_

#include "runtime/observability/metric.h"

namespace shoal {

class MetricPage;

// Counters of a worker. Its trainer adds to them during every step.
struct WorkerMetrics {
  MetricCounter batches;
  MetricCounter examples;
  MetricHistogram step_seconds{BoundsOfSeconds()};  // Per batch: read, computed, pushes started.
  // The part of step_seconds until the batch's examples were read.
  MetricHistogram read_seconds{BoundsOfSeconds()};
  // Waiting between batches, for values and for other workers.
  MetricHistogram barrier_seconds{BoundsOfSeconds()};
  // Waiting within training batches for rows of tables that did not come with the parameters.
  MetricHistogram row_wait_seconds{BoundsOfSeconds()};
  MetricCounter evaluation_blocks;
  MetricCounter non_finite_batches;
  MetricGauge step;  // The worker's current step.
};

void CollectWorker(const WorkerMetrics& metrics, MetricPage* page);

}  // namespace shoal

#endif  // SHOAL_WORKER_WORKER_METRICS_H_
