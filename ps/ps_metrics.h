#ifndef SHOAL_PS_PS_METRICS_H_
#define SHOAL_PS_PS_METRICS_H_

#include <array>
#include <cstddef>

#include "runtime/observability/metric.h"

namespace shoal {

class MetricPage;
namespace v1 {
class PsMemory;
}

// Counters of a parameter server. Its parts add to them while they process steps.
struct PsMetrics {
  // Outcomes of pushed slices, by PushOutcome.
  static constexpr size_t kNumOutcomes = 9;

  MetricCounter bytes_in;  // Payload bytes of exchanges.
  MetricCounter bytes_out;
  MetricHistogram exchange_seconds{BoundsOfSeconds()};  // Exchanges answered with OK.
  MetricHistogram refused_seconds{BoundsOfSeconds()};   // Exchanges answered with an error.
  std::array<MetricCounter, kNumOutcomes> pushes;
  MetricHistogram shard_write_seconds{BoundsOfSeconds()};
  MetricCounter shard_bytes;
  MetricCounter shard_failures;
  MetricGauge variable_bytes;
  MetricGauge slices;
  MetricGauge step;  // The newest version of any slice of this ps.
};

// Adds the metrics of the ps with this index to the page.
void CollectPs(const PsMetrics& metrics, uint32_t index, MetricPage* page);
// Adds the figures of the ps's memory and of the tables in it.
void CollectTables(const v1::PsMemory& memory, MetricPage* page);

}  // namespace shoal

#endif  // SHOAL_PS_PS_METRICS_H_
