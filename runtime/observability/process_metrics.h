#ifndef SHOAL_RUNTIME_OBSERVABILITY_PROCESS_METRICS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_PROCESS_METRICS_H_

namespace shoal {

class MetricPage;

// Adds the metrics that Prometheus' own clients report about a process (process_*: CPU, memory,
// files, start), and shoal_memory_limit_bytes, the memory that the machine or the cgroup allows
// this process.
void AddProcessMetrics(MetricPage* page);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_PROCESS_METRICS_H_
