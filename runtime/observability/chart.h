// Draws curves as SVG, for a page without scripts.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_CHART_H_
#define SHOAL_RUNTIME_OBSERVABILITY_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/observability/curve.h"

namespace shoal {

// A chart has a training curve, which is smoothed, and may have the few points of the test split.
struct Chart {
  // An event at a step, which is shown as a numbered vertical line.
  struct Mark {
    uint64_t step = 0;
    uint64_t number = 0;
  };

  std::string id;     // Unique in the page, letters and digits only.
  std::string title;  // "Loss".
  std::string axis;   // The quantity and unit of the vertical axis.
  std::vector<CurvePoint> train;
  std::vector<CurvePoint> test;
  std::vector<Mark> marks;      // Ordered by step.
  bool starts_at_zero = false;  // The vertical axis does.
};

// Returns a <figure> with the chart, its legend, and its first and last values in words. All text
// is escaped.
std::string ChartHtml(const Chart& chart);

// Returns the number with 4 significant digits: "0.3589", "4592", "12.5k".
std::string FormatValue(double value);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_CHART_H_
