#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRIC_PAGE_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRIC_PAGE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

class MetricHistogram;

// One answer to a scrape, in Prometheus' text format. Names begin with "shoal_" (or "process_"),
// are in base units, and those of counters end in "_total"; each has a help text. Samples of one
// name become one family. Not thread-safe.
class MetricPage {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  MetricPage();
  ~MetricPage();
  MetricPage(const MetricPage&) = delete;
  MetricPage& operator=(const MetricPage&) = delete;

  // Labels of all samples added from now on, before their own.
  void SetLabels(Labels labels) { labels_ = std::move(labels); }

  void AddCounter(absl::string_view name, absl::string_view help, double value,
                  const Labels& labels = {});
  void AddGauge(absl::string_view name, absl::string_view help, double value,
                const Labels& labels = {});
  void AddHistogram(absl::string_view name, absl::string_view help,
                    const MetricHistogram& histogram, const Labels& labels = {});

  std::string ToText() const;

 private:
  struct Families;

  Labels labels_;
  std::unique_ptr<Families> families_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRIC_PAGE_H_
