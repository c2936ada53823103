#ifndef SHOAL_RUNTIME_VARIABLES_METRIC_MESSAGES_H_
#define SHOAL_RUNTIME_VARIABLES_METRIC_MESSAGES_H_

#include "absl/status/status.h"
#include "google/protobuf/repeated_field.h"

#include "proto/v1/metric.pb.h"
#include "runtime/variables/metric_sums.h"

namespace shoal {

// Appends the sums. The bins of a histogram must not fall.
void ToProto(const MetricSums& sums, google::protobuf::RepeatedPtrField<v1::MetricSum>* proto);

// InvalidArgument: too many metrics, or a histogram with a bin that does not exist.
absl::Status FromProto(const google::protobuf::RepeatedPtrField<v1::MetricSum>& proto,
                       MetricSums* sums);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_METRIC_MESSAGES_H_
