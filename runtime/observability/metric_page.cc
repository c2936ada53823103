#include "runtime/observability/metric_page.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

#include "runtime/observability/metric.h"

namespace shoal {

struct MetricPage::Families {
  // A new sample of the family, with its labels.
  prometheus::ClientMetric* Add(absl::string_view name, absl::string_view help,
                                prometheus::MetricType type, const Labels& common,
                                const Labels& own) {
    prometheus::MetricFamily* family = nullptr;
    for (prometheus::MetricFamily& known : all) {
      if (known.name == name) family = &known;
    }
    if (family == nullptr) {
      family = &all.emplace_back();
      family->name = std::string(name);
      family->help = std::string(help);
      family->type = type;
    }
    prometheus::ClientMetric& metric = family->metric.emplace_back();
    for (const Labels* labels : {&common, &own}) {
      for (const auto& [label, value] : *labels) metric.label.push_back({label, value});
    }
    return &metric;
  }

  std::vector<prometheus::MetricFamily> all;
};

MetricPage::MetricPage() : families_(std::make_unique<Families>()) {}
MetricPage::~MetricPage() = default;

void MetricPage::AddCounter(absl::string_view name, absl::string_view help, double value,
                            const Labels& labels) {
  families_->Add(name, help, prometheus::MetricType::Counter, labels_, labels)->counter.value =
      value;
}

void MetricPage::AddGauge(absl::string_view name, absl::string_view help, double value,
                          const Labels& labels) {
  families_->Add(name, help, prometheus::MetricType::Gauge, labels_, labels)->gauge.value = value;
}

void MetricPage::AddHistogram(absl::string_view name, absl::string_view help,
                              const MetricHistogram& histogram, const Labels& labels) {
  prometheus::ClientMetric::Histogram& sample =
      families_->Add(name, help, prometheus::MetricType::Histogram, labels_, labels)->histogram;
  const absl::Span<const double> bounds = histogram.bounds();
  for (size_t i = 0; i <= bounds.size(); ++i) {
    sample.sample_count += histogram.count(i);
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    sample.bucket.push_back({sample.sample_count, bound});
  }
  sample.sample_sum = histogram.sum();
}

std::string MetricPage::ToText() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families_->all);
  return text.str();
}

}  // namespace shoal
