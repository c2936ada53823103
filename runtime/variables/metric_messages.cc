#include "runtime/variables/metric_messages.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

absl::Status TakeHistogram(const google::protobuf::RepeatedField<uint32_t>& numbers,
                           std::vector<ScoreCount>* histogram) {
  constexpr int kNumbers = 3;
  if (numbers.size() % kNumbers != 0) {
    return absl::InvalidArgumentError("metrics: a histogram has a part of an entry");
  }
  histogram->reserve(static_cast<size_t>(numbers.size() / kNumbers));
  uint64_t bin = 0;
  for (int i = 0; i < numbers.size(); i += kNumbers) {
    bin += numbers[i];
    if (bin >= kNumScoreBins) {
      return absl::InvalidArgumentError(absl::StrCat("metrics: a histogram has bin ", bin,
                                                     "; there are ", kNumScoreBins, " bins"));
    }
    histogram->push_back({static_cast<uint32_t>(bin), numbers[i + 1], numbers[i + 2]});
  }
  return absl::OkStatus();
}

}  // namespace

void ToProto(const MetricSums& sums, google::protobuf::RepeatedPtrField<v1::MetricSum>* proto) {
  for (const MetricSum& metric : sums) {
    v1::MetricSum* const one = proto->Add();
    one->set_sum(metric.sum);
    one->set_weight(metric.weight);
    uint32_t bin = 0;
    for (const ScoreCount& count : metric.histogram) {
      one->add_histogram(count.bin - bin);
      one->add_histogram(count.positives);
      one->add_histogram(count.negatives);
      bin = count.bin;
    }
  }
}

absl::Status FromProto(const google::protobuf::RepeatedPtrField<v1::MetricSum>& proto,
                       MetricSums* sums) {
  sums->clear();
  if (proto.empty()) return absl::OkStatus();
  if (static_cast<size_t>(proto.size()) > kMostMetrics) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics: ", proto.size(), " metrics; at most ", kMostMetrics));
  }
  for (const v1::MetricSum& one : proto) {
    MetricSum& metric = sums->emplace_back();
    metric.sum = one.sum();
    metric.weight = one.weight();
    RETURN_IF_ERROR(TakeHistogram(one.histogram(), &metric.histogram));
  }
  return absl::OkStatus();
}

}  // namespace shoal
