#include "worker/worker_metrics.h"

#include "runtime/observability/metric_page.h"

namespace shoal {

void CollectWorker(const WorkerMetrics& metrics, MetricPage* page) {
  page->AddCounter("shoal_steps_total", "Updates (chief) or batches (worker) since the task began.",
                   static_cast<double>(metrics.batches.value()));
  page->AddCounter("shoal_examples_total", "Training examples since the task began.",
                   static_cast<double>(metrics.examples.value()));
  page->AddHistogram("shoal_step_duration_seconds",
                     "Time to read and compute one batch, its pushes begun.", metrics.step_seconds);
  page->AddHistogram("shoal_read_duration_seconds",
                     "Time that a batch waited for its examples to be read.", metrics.read_seconds);
  page->AddHistogram("shoal_barrier_wait_seconds",
                     "Time without work: waiting for values and for other workers.",
                     metrics.barrier_seconds);
  page->AddHistogram("shoal_row_wait_seconds",
                     "Time that a batch waited for rows of tables that did not come with its "
                     "parameters.",
                     metrics.row_wait_seconds);
  page->AddCounter("shoal_evaluation_blocks_total", "Blocks of the test split that were evaluated.",
                   static_cast<double>(metrics.evaluation_blocks.value()));
  page->AddCounter("shoal_non_finite_batches_total",
                   "Batches whose loss or gradient was not a finite number.",
                   static_cast<double>(metrics.non_finite_batches.value()));
}

}  // namespace shoal
