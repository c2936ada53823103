#include <cmath>
#include <limits>
#include <vector>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// Elementwise losses: of prediction and target, with a parameter (Huber's delta, the log loss's
// epsilon).
double AbsoluteDifference(double p, double t, double) { return std::fabs(p - t); }
double AbsoluteDifferenceSlope(double p, double t, double) {
  return p > t ? 1 : p < t ? -1 : p - t;
}

// Labels are 0 or 1.
double Hinge(double p, double t, double) {
  const double margin = 1 - (2 * t - 1) * p;
  return margin < 0 ? 0 : margin;
}
double HingeSlope(double p, double t, double) {
  const double sign = 2 * t - 1;
  return 1 - sign * p > 0 ? -sign : 0;
}

double Huber(double p, double t, double delta) {
  const double error = std::fabs(p - t);
  return error > delta ? delta * error - 0.5 * delta * delta : 0.5 * error * error;
}
double HuberSlope(double p, double t, double delta) {
  const double error = p - t;
  return error > delta ? delta : error < -delta ? -delta : error;
}

double SigmoidCrossEntropy(double x, double t, double) {
  return (x < 0 ? 0 : x) - x * t + std::log1p(std::exp(-std::fabs(x)));
}
double SigmoidCrossEntropySlope(double x, double t, double) { return 1 / (1 + std::exp(-x)) - t; }

double LogLoss(double p, double t, double epsilon) {
  return -t * std::log(p + epsilon) - (1 - t) * std::log(1 - p + epsilon);
}
double LogLossSlope(double p, double t, double epsilon) {
  return -t / (p + epsilon) + (1 - t) / (1 - p + epsilon);
}

using LossFunction = double (*)(double, double, double);

template <typename T, LossFunction F>
void Loss(const Call& call) {
  const double parameter = call.attributes.GetDouble(
      call.attributes.Has("delta") ? "delta" : "epsilon", F == &Huber ? 1.0 : 1e-7);
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    call.Out<T>(0)[i] = static_cast<T>(F(call.In<T>(0)[i], call.In<T>(1)[i], parameter));
  }
}

template <typename T, LossFunction F>
void LossGrad(const Call& call) {
  const double parameter = call.attributes.GetDouble(
      call.attributes.Has("delta") ? "delta" : "epsilon", F == &HuberSlope ? 1.0 : 1e-7);
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    const double slope = F(call.In<T>(0)[i], call.In<T>(1)[i], parameter);
    call.Out<T>(0)[i] = static_cast<T>(slope * call.In<T>(2)[i]);
  }
}

// The shape that prediction and target are broadcast to.
Shape ErrorShape(const Call& call) {
  const Shape &a = call.InShape(0), &b = call.InShape(1);
  Shape shape = a.rank() > b.rank() ? a : b;
  const Shape& other = a.rank() > b.rank() ? b : a;
  const int offset = shape.rank() - other.rank();
  for (int k = 0; k < other.rank(); ++k) {
    if (shape.dim(offset + k) == 1) shape.set_dim(offset + k, other.dim(k));
  }
  return shape;
}

template <typename T>
void MeanSquaredError(const Call& call) {
  const Shape shape = ErrorShape(call);
  double sum = 0;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const double p = call.In<T>(0)[BroadcastIndex(call.InShape(0), shape, i)];
    const double t = call.In<T>(1)[BroadcastIndex(call.InShape(1), shape, i)];
    sum += (p - t) * (p - t);
  }
  *call.Out<T>(0) = static_cast<T>(sum / static_cast<double>(shape.num_elements()));
}

// p, t, dloss -> dp
template <typename T>
void MeanSquaredErrorGrad(const Call& call) {
  const Shape shape = ErrorShape(call);
  std::vector<double> sums(static_cast<size_t>(call.OutShape(0).num_elements()));
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const int64_t at = BroadcastIndex(call.InShape(0), shape, i);
    const double t = call.In<T>(1)[BroadcastIndex(call.InShape(1), shape, i)];
    sums[static_cast<size_t>(at)] += call.In<T>(0)[at] - t;
  }
  const double factor = 2.0 * *call.In<T>(2) / static_cast<double>(shape.num_elements());
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(factor * sums[i]);
}

// A row of n logits as log probabilities. A label outside the classes makes its row NaN, as in
// TensorFlow.
template <typename T>
std::vector<double> LogProbabilities(const T* logits, int64_t n) {
  double most = logits[0];
  for (int64_t j = 1; j < n; ++j)
    most = std::isnan(logits[j]) || logits[j] > most ? logits[j] : most;
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(logits[j] - most);
  std::vector<double> result(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    result[static_cast<size_t>(j)] = logits[j] - most - std::log(sum);
  }
  return result;
}

// The probability that a smoothed label gives to class j.
double SmoothedLabel(int32_t label, int64_t j, int64_t classes, double smoothing) {
  if (label < 0 || label >= classes) return std::numeric_limits<double>::quiet_NaN();
  return (label == j ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
}

// Writes the loss and the probabilities of row i, given its target distribution.
template <typename T, typename Target>
void CrossEntropyRow(const Call& call, int64_t i, const Target& target) {
  const int64_t n = call.InShape(0).dim(1);
  const auto logs = LogProbabilities(call.In<T>(0) + i * n, n);
  double loss = 0;
  for (int64_t j = 0; j < n; ++j) {
    const double weight = target(j);
    if (weight != 0) loss -= weight * logs[static_cast<size_t>(j)];
  }
  if (T* out = call.Out<T>(0)) out[i] = static_cast<T>(loss);
  if (call.outputs.size() < 2 || call.Out<T>(1) == nullptr) return;
  for (int64_t j = 0; j < n; ++j) {
    call.Out<T>(1)[i * n + j] = static_cast<T>(std::exp(logs[static_cast<size_t>(j)]));
  }
}

// logits[n,c], labels[n] -> loss[n], probabilities[n,c]
template <typename T>
void SparseSoftmaxCrossEntropy(const Call& call) {
  const double smoothing = call.attributes.GetDouble("label_smoothing", 0);
  const int64_t n = call.InShape(0).dim(1);
  for (int64_t i = 0; i < call.InShape(0).dim(0); ++i) {
    const int32_t label = call.In<int32_t>(1)[i];
    CrossEntropyRow<T>(call, i, [&](int64_t j) { return SmoothedLabel(label, j, n, smoothing); });
  }
}

// probabilities, labels, dloss -> dlogits
template <typename T>
void SparseSoftmaxCrossEntropyGrad(const Call& call) {
  const double smoothing = call.attributes.GetDouble("label_smoothing", 0);
  const int64_t n = call.InShape(0).dim(1);
  for (int64_t i = 0; i < call.InShape(0).num_elements(); ++i) {
    const double target = SmoothedLabel(call.In<int32_t>(1)[i / n], i % n, n, smoothing);
    call.Out<T>(0)[i] = static_cast<T>((call.In<T>(0)[i] - target) * call.In<T>(2)[i / n]);
  }
}

// logits[n,c], labels[n,c] -> loss[n], probabilities[n,c]
template <typename T>
void SoftmaxCrossEntropy(const Call& call) {
  const int64_t n = call.InShape(0).dim(1);
  for (int64_t i = 0; i < call.InShape(0).dim(0); ++i) {
    CrossEntropyRow<T>(call, i, [&](int64_t j) { return call.In<T>(1)[i * n + j]; });
  }
}

// probabilities, labels, dloss -> dlogits; the labels of an example add up to 1
template <typename T>
void SoftmaxCrossEntropyGrad(const Call& call) {
  const int64_t n = call.InShape(0).dim(1);
  for (int64_t i = 0; i < call.InShape(0).num_elements(); ++i) {
    const double difference = static_cast<double>(call.In<T>(0)[i]) - call.In<T>(1)[i];
    call.Out<T>(0)[i] = static_cast<T>(difference * call.In<T>(2)[i / n]);
  }
}

// Counts how often the label's logit is among the k largest (of equals, the first count as larger).
template <typename T>
void CorrectCount(const Call& call) {
  const int64_t n = call.InShape(0).dim(1);
  const int64_t k = call.attributes.GetInt("k", 1);
  int64_t count = 0;
  for (int64_t i = 0; i < call.InShape(0).dim(0); ++i) {
    const T* row = call.In<T>(0) + i * n;
    const int64_t label = call.In<int32_t>(1)[i];
    if (label < 0 || label >= n) continue;
    int64_t larger = 0;
    for (int64_t j = 0; j < n; ++j) {
      if (row[j] > row[label] || (row[j] == row[label] && j < label)) ++larger;
    }
    count += larger < k ? 1 : 0;
  }
  if (call.outputs[0].dtype == DataType::kFloat64) {
    *call.Out<double>(0) = static_cast<double>(count);
  } else {
    *call.Out<float>(0) = static_cast<float>(count);
  }
}

#define SHOAL_LOSS(name)                                                              \
  {#name, &Loss<float, &name>, &Loss<double, &name>}, {                               \
#name "Grad", &LossGrad < float, &name##Slope>, &LossGrad < double, &name##Slope> \
  }

constexpr Op kOps[] = {
    SHOAL_LOSS(AbsoluteDifference),
    SHOAL_LOSS(Hinge),
    SHOAL_LOSS(Huber),
    SHOAL_LOSS(SigmoidCrossEntropy),
    SHOAL_LOSS(LogLoss),
    {"MeanSquaredError", &MeanSquaredError<float>, &MeanSquaredError<double>},
    {"MeanSquaredErrorGrad", &MeanSquaredErrorGrad<float>, &MeanSquaredErrorGrad<double>},
    {"SparseSoftmaxCrossEntropy", &SparseSoftmaxCrossEntropy<float>,
     &SparseSoftmaxCrossEntropy<double>},
    {"SparseSoftmaxCrossEntropyGrad", &SparseSoftmaxCrossEntropyGrad<float>,
     &SparseSoftmaxCrossEntropyGrad<double>},
    {"SoftmaxCrossEntropy", &SoftmaxCrossEntropy<float>, &SoftmaxCrossEntropy<double>},
    {"SoftmaxCrossEntropyGrad", &SoftmaxCrossEntropyGrad<float>, &SoftmaxCrossEntropyGrad<double>},
    {"CorrectCount", &CorrectCount<float>, &CorrectCount<double>},
};

}  // namespace

absl::Span<const Op> LossOps() { return kOps; }

}  // namespace shoal::reference
