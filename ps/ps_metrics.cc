#include "ps/ps_metrics.h"

#include "absl/strings/str_cat.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/observability/metric_page.h"
#include "runtime/variables/contribution.h"

namespace shoal {
namespace {

// By PushOutcome.
constexpr const char* kOutcomes[PsMetrics::kNumOutcomes] = {
    "none", "accepted", "duplicate", "stale", "withheld", "busy", "corrupt", "non_finite", "ahead"};

constexpr char kExchange[] =
    "Time from the arrival of a call to its answer; pulls wait in it for the values they ask for.";
constexpr char kBytes[] = "Gradients that came in and values that went out.";

}  // namespace

void CollectPs(const PsMetrics& metrics, uint32_t index, MetricPage* page) {
  page->AddGauge("shoal_global_step", "Updates that are applied to the variables.",
                 metrics.step.value());
  page->AddGauge("shoal_variable_bytes", "Size of the slices that this ps owns.",
                 metrics.variable_bytes.value(), {{"shard", absl::StrCat(index)}});
  page->AddGauge("shoal_slices", "Slices that this ps owns.", metrics.slices.value());
  page->AddHistogram("shoal_rpc_duration_seconds", kExchange, metrics.exchange_seconds,
                     {{"method", "Exchange"}, {"code", "ok"}});
  page->AddHistogram("shoal_rpc_duration_seconds", kExchange, metrics.refused_seconds,
                     {{"method", "Exchange"}, {"code", "error"}});
  page->AddCounter("shoal_rpc_bytes_total", kBytes, static_cast<double>(metrics.bytes_in.value()),
                   {{"direction", "in"}});
  page->AddCounter("shoal_rpc_bytes_total", kBytes, static_cast<double>(metrics.bytes_out.value()),
                   {{"direction", "out"}});
  for (size_t i = 1; i < PsMetrics::kNumOutcomes; ++i) {
    page->AddCounter("shoal_pushed_slices_total", "Gradients of slices that came in, by outcome.",
                     static_cast<double>(metrics.pushes[i].value()), {{"outcome", kOutcomes[i]}});
  }
  const auto stale = static_cast<size_t>(PushOutcome::kStale);
  page->AddCounter("shoal_stale_gradients_dropped_total",
                   "Gradients of slices that were refused because they came too late.",
                   static_cast<double>(metrics.pushes[stale].value()));
  page->AddHistogram("shoal_checkpoint_duration_seconds",
                     "Time to write this ps's shard of a checkpoint.", metrics.shard_write_seconds);
  page->AddCounter("shoal_checkpoint_written_bytes_total", "Size of the files written so.",
                   static_cast<double>(metrics.shard_bytes.value()));
  page->AddCounter("shoal_checkpoint_failures_total", "Checkpoints that could not be made.",
                   static_cast<double>(metrics.shard_failures.value()));
}

void CollectTables(const v1::PsMemory& memory, MetricPage* page) {
  for (const v1::PsMemory::Table& table : memory.tables()) {
    const MetricPage::Labels labels = {{"table", table.name()}};
    page->AddGauge("shoal_table_rows", "Rows of the table that this ps stores.",
                   static_cast<double>(table.rows()), labels);
    page->AddGauge("shoal_table_bytes",
                   "Memory of the table on this ps: rows, indexes, sums and the previous version.",
                   static_cast<double>(table.bytes()), labels);
    const auto add_reads = [&](const char* result, uint64_t keys) {
      page->AddCounter("shoal_table_keys_read_total",
                       "Keys that workers read, by whether the table had a row (stored) or the key "
                       "read as its initial value (initial).",
                       static_cast<double>(keys), {{"table", table.name()}, {"result", result}});
    };
    add_reads("stored", table.rows_found());
    add_reads("initial", table.keys_read() - table.rows_found());
  }
  page->AddGauge(
      "shoal_ps_memory_used_bytes",
      "Memory that this ps needs with its rows as they are, a checkpoint included; where "
      "the kernel sets the limit, at least what its process has.",
      static_cast<double>(memory.used()));
  page->AddGauge("shoal_ps_memory_limit_bytes",
                 "Memory that this ps may use; the run ends before it needs more.",
                 static_cast<double>(memory.limit()));
}

}  // namespace shoal
