#ifndef SHOAL_RUNTIME_OBSERVABILITY_PROCESS_METRICS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_PROCESS_METRICS_H_

namespace shoal {

class MetricPage;

// The metrics that Prometheus' own clients report of a process (process_*: CPU, memory, files,
// start), and the memory that this one may have: shoal_memory_limit_bytes, of its control group or
// of the machine.
void AddProcessMetrics(MetricPage* page);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_PROCESS_METRICS_H_
