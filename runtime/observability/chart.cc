#include "runtime/observability/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "runtime/observability/html.h"

namespace shoal {
namespace {

// The sizes are in units of the viewBox; run_page_assets.cc has the sizes of the text.
constexpr double kWidth = 480, kHeight = 280;
constexpr double kLeft = 58, kRight = 466, kTop = 34, kBottom = 234;
// Labels of marks that are nearer than this would cover each other.
constexpr double kMarkWidth = 16;
// A mean of the smoothed curve is over such a part of the points.
constexpr size_t kSmoothedParts = 30;
constexpr double kWantedTicks = 5;
constexpr int kMostTicks = 12;
// Labels of ticks that are nearer have exponents.
constexpr double kSmallestDecimalTick = 1e-4;
// More points of the test split are a line without dots.
constexpr size_t kMostDots = 60;

struct Range {
  double low = 0;
  double high = 1;
  double tick = 0.25;
};

std::string Format(double value, int digits) {
  const double size = std::abs(value);
  if (size >= 1e6) return absl::StrFormat("%.*gM", digits, value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.*gk", digits, value / 1e3);
  return absl::StrFormat("%.*g", digits, value);
}

// Returns the smallest of 1, 2, 2.5, 5 times a power of ten that is not below `least`.
double NiceStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

Range MakeRange(double low, double high) {
  // Means of equal numbers differ in their last digits.
  const double size = std::max(std::abs(low), std::abs(high));
  if (!(high - low > 1e-6 * size)) {
    const double around = std::max(size * 0.1, 1e-3);
    low -= around;
    high += around;
  }
  Range range;
  range.tick = NiceStep((high - low) / kWantedTicks);
  range.low = std::floor(low / range.tick + 1e-9) * range.tick;
  range.high = std::ceil(high / range.tick - 1e-9) * range.tick;
  return range;
}

// Returns the label of a tick: all labels of an axis have the same unit and number of decimals.
std::string TickLabel(double value, const Range& range) {
  if (value == 0) return "0";
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  const double unit = size >= 1e6 ? 1e6 : size >= 1e4 ? 1e3 : 1;
  const double tick = range.tick / unit;
  if (size >= 1e9 || tick < kSmallestDecimalTick) return Format(value, 6);
  int decimals = 0;
  double scaled = tick;
  for (; std::abs(scaled - std::round(scaled)) > 1e-6; scaled *= 10) ++decimals;
  return absl::StrFormat("%.*f%s", decimals, value / unit,
                         unit == 1e6   ? "M"
                         : unit == 1e3 ? "k"
                                       : "");
}

// Returns means over a window around each point. At the first points, where a curve is steep, the
// window is smaller.
std::vector<CurvePoint> Smoothed(const std::vector<CurvePoint>& points) {
  const size_t reach = points.size() / kSmoothedParts / 2;
  std::vector<CurvePoint> smoothed;
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t side = std::min(reach, i);
    const size_t end = std::min(i + side + 1, points.size());
    double sum = 0;
    for (size_t j = i - side; j < end; ++j) sum += points[j].value;
    smoothed.push_back({points[i].step, sum / static_cast<double>(end - (i - side))});
  }
  return smoothed;
}

// The axes of one chart.
class Plane {
 public:
  Plane(const Chart& chart, const std::vector<CurvePoint>& smoothed) {
    double low = INFINITY, high = -INFINITY;
    double last = 1;
    // The first values are often far above all others, which would become a flat line.
    const size_t skipped = smoothed.size() > 50 ? smoothed.size() / 50 : 0;
    for (size_t i = skipped; i < smoothed.size(); ++i) {
      low = std::min(low, smoothed[i].value);
      high = std::max(high, smoothed[i].value);
    }
    for (const CurvePoint& point : chart.test) {
      low = std::min(low, point.value);
      high = std::max(high, point.value);
      last = std::max(last, static_cast<double>(point.step));
    }
    if (!smoothed.empty()) last = std::max(last, static_cast<double>(smoothed.back().step));
    if (chart.starts_at_zero) low = 0;
    y_ = MakeRange(low, high);
    x_ = MakeRange(0, last);
    x_.tick = std::max(x_.tick, 1.0);
    x_.high = last;
  }

  const Range& x() const { return x_; }
  const Range& y() const { return y_; }
  double XOf(double step) const { return kLeft + (kRight - kLeft) * step / x_.high; }
  double YOf(double value) const {
    return kBottom - (kBottom - kTop) * (value - y_.low) / (y_.high - y_.low);
  }
  // Far outside it makes no difference where.
  double Bounded(double y) const { return std::clamp(y, kTop - kHeight, kBottom + kHeight); }

 private:
  Range x_, y_;
};

std::string DrawLine(const Plane& plane, const std::vector<CurvePoint>& points) {
  std::string text;
  for (const CurvePoint& point : points) {
    absl::StrAppendFormat(&text, "%s%.1f,%.1f", text.empty() ? "" : " ",
                          plane.XOf(static_cast<double>(point.step)),
                          plane.Bounded(plane.YOf(point.value)));
  }
  return text;
}

void AppendAxes(const Chart& chart, const Plane& plane, std::string* svg) {
  const Range& y = plane.y();
  for (int i = 0; i <= kMostTicks && y.low + i * y.tick <= y.high + y.tick / 2; ++i) {
    const double value = y.low + i * y.tick;
    const double at = plane.YOf(value);
    absl::StrAppendFormat(svg, "<path class=\"grid\" d=\"M%.0f %.1fH%.0f\"/>", kLeft, at, kRight);
    absl::StrAppendFormat(svg, "<text class=\"tick end\" x=\"%.0f\" y=\"%.1f\">%s</text>",
                          kLeft - 7, at + 4,
                          TickLabel(std::abs(value) < y.tick / 2 ? 0 : value, y));
  }
  const Range& x = plane.x();
  for (int i = 0; i <= kMostTicks && i * x.tick <= x.high; ++i) {
    const double step = i * x.tick;
    const double at = plane.XOf(step);
    absl::StrAppendFormat(svg, "<path class=\"axis\" d=\"M%.1f %.0fv5\"/>", at, kBottom);
    absl::StrAppendFormat(svg, "<text class=\"tick mid\" x=\"%.1f\" y=\"%.0f\">%s</text>", at,
                          kBottom + 20, TickLabel(step, x));
  }
  absl::StrAppendFormat(svg, "<path class=\"axis\" d=\"M%.0f %.0fH%.0f\"/>", kLeft, kBottom,
                        kRight);
  absl::StrAppendFormat(svg, "<text class=\"name mid\" x=\"%.0f\" y=\"%.0f\">step</text>",
                        (kLeft + kRight) / 2, kHeight - 5);
  absl::StrAppendFormat(svg, "<text class=\"name\" x=\"4\" y=\"13\">%s</text>",
                        EscapeHtml(chart.axis));
}

void AppendMarks(const Chart& chart, const Plane& plane, std::string* svg) {
  double labelled_to = kLeft - kMarkWidth;
  for (const Chart::Mark& mark : chart.marks) {
    const double at = plane.XOf(std::min(static_cast<double>(mark.step), plane.x().high));
    absl::StrAppendFormat(svg, "<path class=\"mark\" d=\"M%.1f %.0fV%.0f\"/>", at, kTop, kBottom);
    if (at - labelled_to < kMarkWidth) continue;
    labelled_to = at;
    absl::StrAppendFormat(svg, "<text class=\"number mid\" x=\"%.1f\" y=\"%.0f\">%d</text>", at,
                          kTop - 4, mark.number);
  }
}

void AppendCurves(const Chart& chart, const Plane& plane, const std::vector<CurvePoint>& smoothed,
                  std::string* svg) {
  absl::StrAppendFormat(svg,
                        "<clipPath id=\"clip-%s\"><rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" "
                        "height=\"%.0f\"/></clipPath><g clip-path=\"url(#clip-%s)\">",
                        chart.id, kLeft, kTop - 2, kRight - kLeft + 6, kBottom - kTop + 4,
                        chart.id);
  if (chart.train.size() >= 2 * kSmoothedParts) {
    absl::StrAppend(svg, "<polyline class=\"raw\" points=\"", DrawLine(plane, chart.train), "\"/>");
  }
  absl::StrAppend(svg, "<polyline class=\"train\" data-name=\"training\" points=\"",
                  DrawLine(plane, smoothed), "\"/>");
  if (!chart.test.empty()) {
    absl::StrAppend(svg, "<polyline class=\"test\" data-name=\"test\" points=\"",
                    DrawLine(plane, chart.test), "\"/>");
  }
  absl::StrAppend(svg, "</g>");
  if (chart.test.size() > kMostDots) return;
  for (const CurvePoint& point : chart.test) {
    absl::StrAppendFormat(svg, "<circle class=\"test\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\"/>",
                          plane.XOf(static_cast<double>(point.step)),
                          std::clamp(plane.YOf(point.value), kTop, kBottom));
  }
}

std::string InWords(const char* name, const std::vector<CurvePoint>& points) {
  if (points.empty()) return "";
  const CurvePoint& first = points.front();
  const CurvePoint& last = points.back();
  if (points.size() == 1) {
    return absl::StrFormat("%s: %s at step %d. ", name, FormatValue(last.value), last.step);
  }
  return absl::StrFormat("%s: %s at step %d, %s at step %d. ", name, FormatValue(first.value),
                         first.step, FormatValue(last.value), last.step);
}

// A sample of a line as it is in the chart.
std::string Sample(const char* body, const char* words) {
  return absl::StrCat("<span class=\"key\"><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">", body,
                      "</svg>", words, "</span>");
}

std::string Legend(const Chart& chart) {
  std::string legend =
      Sample("<path class=\"train\" d=\"M1 6H29\"/>", chart.train.size() >= 2 * kSmoothedParts
                                                          ? "training, smoothed; pale: as measured"
                                                          : "training");
  if (!chart.test.empty()) {
    absl::StrAppend(&legend, Sample("<path class=\"test\" d=\"M1 6H29\"/><circle class=\"test\" "
                                    "cx=\"15\" cy=\"6\" r=\"3.6\"/>",
                                    "test"));
  }
  if (!chart.marks.empty()) {
    absl::StrAppend(&legend,
                    Sample("<path class=\"mark\" d=\"M15 0V12\"/>", "trouble, numbered below"));
  }
  return legend;
}

}  // namespace

std::string FormatValue(double value) { return Format(value, 4); }

std::string ChartHtml(const Chart& chart) {
  std::string html = absl::StrCat("<figure class=\"card\"><h3>", EscapeHtml(chart.title), "</h3>");
  if (chart.train.empty() && chart.test.empty()) {
    return absl::StrCat(html, "<p class=\"empty\">There is no value yet.</p></figure>\n");
  }
  const std::vector<CurvePoint> smoothed = Smoothed(chart.train);
  const Plane plane(chart, smoothed);
  const std::string words =
      absl::StrCat(InWords("training", smoothed), InWords("test", chart.test));
  absl::StrAppendFormat(&html,
                        "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                        "aria-label=\"%s by step. %s\" data-left=\"%.0f\" data-right=\"%.0f\" "
                        "data-top=\"%.0f\" data-bottom=\"%.0f\" data-last=\"%.0f\" "
                        "data-low=\"%.9g\" data-high=\"%.9g\">",
                        kWidth, kHeight, EscapeHtml(chart.title), words, kLeft, kRight, kTop,
                        kBottom, plane.x().high, plane.y().low, plane.y().high);
  AppendAxes(chart, plane, &html);
  AppendMarks(chart, plane, &html);
  AppendCurves(chart, plane, smoothed, &html);
  absl::StrAppend(&html, "</svg><figcaption>", Legend(chart),
                  "<output class=\"readout\"></output></figcaption></figure>\n");
  return html;
}

}  // namespace shoal
