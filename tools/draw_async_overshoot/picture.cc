#include "tools/draw_async_overshoot/picture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal {
namespace {

constexpr char kAsyncColor[] = "#c2410c";
constexpr char kSyncColor[] = "#1d4ed8";
constexpr double kWidth = 400;
constexpr double kHeight = 260;
constexpr double kTop = 80;

// A rectangle of the picture with coordinates of its own.
class Panel {
 public:
  struct Ranges {
    double min_x, max_x, min_y, max_y;
  };

  Panel(double left, const Ranges& ranges) : left_(left), ranges_(ranges) {}

  std::string At(double x, double y) const { return absl::StrFormat("%.1f,%.1f", X(x), Y(y)); }
  double X(double x) const {
    return left_ + kWidth * (x - ranges_.min_x) / (ranges_.max_x - ranges_.min_x);
  }
  double Y(double y) const {
    return kTop + kHeight * (ranges_.max_y - y) / (ranges_.max_y - ranges_.min_y);
  }

  void Line(double x1, double y1, double x2, double y2, const std::string& style,
            std::string* svg) const {
    absl::StrAppendFormat(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n",
                          X(x1), Y(y1), X(x2), Y(y2), style);
  }
  void Dot(double x, double y, const char* color, std::string* svg) const {
    absl::StrAppendFormat(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", X(x),
                          Y(y), color);
  }
  // Anchored `dx`, `dy` pixels away from a point.
  void Label(double x, double y, double dx, double dy, const std::string& text, const char* color,
             std::string* svg) const {
    absl::StrAppendFormat(svg, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n", X(x) + dx,
                          Y(y) + dy, color, text);
  }
  void Title(const std::string& text, std::string* svg) const {
    absl::StrAppendFormat(svg, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n",
                          left_, kTop - 14, text);
  }
  void Axes(const std::string& x_name, const std::string& y_name, std::string* svg) const {
    const std::string style = "stroke=\"#64748b\" stroke-width=\"1\"";
    Line(ranges_.min_x, ranges_.min_y, ranges_.max_x, ranges_.min_y, style, svg);
    Line(ranges_.min_x, ranges_.min_y, ranges_.min_x, ranges_.max_y, style, svg);
    Label(ranges_.max_x, ranges_.min_y, -8.0 * x_name.size(), 38, x_name, "#334155", svg);
    Label(ranges_.min_x, ranges_.max_y, 6, 12, y_name, "#334155", svg);
  }
  void TickX(double x, const std::string& text, std::string* svg) const {
    Label(x, ranges_.min_y, -3.5 * text.size(), 18, text, "#64748b", svg);
  }

 private:
  const double left_;
  const Ranges ranges_;
};

void DrawMoves(const Panel& panel, const OvershootOptions& options, const ValueTrace& values,
               size_t num_moves, const char* color, std::string* svg) {
  for (size_t i = 0; i < num_moves; ++i) {
    panel.Line(values[i], OvershootLoss(options, values[i]), values[i + 1],
               OvershootLoss(options, values[i + 1]),
               absl::StrCat("stroke=\"", color, "\" stroke-width=\"2\" marker-end=\"url(#",
                            color + 1, ")\""),
               svg);
    panel.Dot(values[i + 1], OvershootLoss(options, values[i + 1]), color, svg);
  }
}

void DrawFirstRound(const OvershootOptions& options, const ValueTrace& async_values,
                    const ValueTrace& sync_values, std::string* svg) {
  const Panel panel(50, {-1, 3.4, 0, 5});
  panel.Title("The first round, on the loss over both batches", svg);
  panel.Axes("value of w", "loss", svg);
  for (int tick = -1; tick <= 3; ++tick) panel.TickX(tick, absl::StrCat(tick), svg);
  absl::StrAppend(svg, "<polyline fill=\"none\" stroke=\"#0f172a\" stroke-width=\"1.5\" points=\"");
  for (int i = 0; i <= 84; ++i) {
    const double value = -1 + 0.05 * i;
    absl::StrAppend(svg, i == 0 ? "" : " ", panel.At(value, OvershootLoss(options, value)));
  }
  absl::StrAppend(svg, "\"/>\n");
  DrawMoves(panel, options, async_values, 2, kAsyncColor, svg);
  DrawMoves(panel, options, sync_values, 1, kSyncColor, svg);
  const double start = async_values[0];
  panel.Dot(start, OvershootLoss(options, start), "#0f172a", svg);
  panel.Label(start, OvershootLoss(options, start), -168, -12, "both workers read w = 3", "#0f172a",
              svg);
  panel.Label(async_values[2], OvershootLoss(options, async_values[2]), 10, -14,
              absl::StrFormat("async: %.1f", async_values[2]), kAsyncColor, svg);
  panel.Label(sync_values[1], OvershootLoss(options, sync_values[1]), 14, 4,
              absl::StrFormat("sync: %.1f", sync_values[1]), kSyncColor, svg);
}

void DrawTrace(const Panel& panel, const ValueTrace& values, double updates_per_round,
               const char* color, std::string* svg) {
  absl::StrAppend(svg, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"", color,
                  "\" points=\"");
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppend(svg, i == 0 ? "" : " ",
                    panel.At(static_cast<double>(i) / updates_per_round, values[i]));
  }
  absl::StrAppend(svg, "\"/>\n");
  for (size_t i = 0; i < values.size(); ++i) {
    panel.Dot(static_cast<double>(i) / updates_per_round, values[i], color, svg);
  }
}

void DrawAllRounds(const OvershootOptions& options, const ValueTrace& async_values,
                   const ValueTrace& sync_values, std::string* svg) {
  const double num_rounds = options.num_rounds;
  const Panel panel(520, {0, num_rounds, -1, 3.4});
  panel.Title("All rounds: the value at the ps", svg);
  panel.Axes("round", "w", svg);
  for (int round = 1; round < options.num_rounds; ++round) {
    panel.TickX(round, absl::StrCat(round), svg);
  }
  const double minimum = (options.targets[0] + options.targets[1]) / 2;
  panel.Line(0, minimum, num_rounds, minimum, "stroke=\"#94a3b8\" stroke-dasharray=\"5 4\"", svg);
  panel.Label(num_rounds, minimum, -75, 40, "minimum", "#64748b", svg);
  DrawTrace(panel, async_values, 2, kAsyncColor, svg);
  DrawTrace(panel, sync_values, 1, kSyncColor, svg);
}

}  // namespace

std::string DrawOvershoot(const OvershootOptions& options, const ValueTrace& async_values,
                          const ValueTrace& sync_values) {
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 400\" width=\"960\" "
      "height=\"400\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"960\" height=\"400\" fill=\"white\"/>\n<defs>\n";
  for (const char* color : {kAsyncColor, kSyncColor}) {
    absl::StrAppend(&svg, "<marker id=\"", color + 1,
                    "\" viewBox=\"0 0 8 8\" refX=\"12\" refY=\"4\" markerWidth=\"7\" "
                    "markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"",
                    color, "\"/></marker>\n");
  }
  absl::StrAppend(&svg, "</defs>\n");
  absl::StrAppend(&svg,
                  "<text x=\"50\" y=\"30\" font-size=\"16\" font-weight=\"bold\">Two workers, "
                  "one parameter, both gradients from the same value</text>\n");
  absl::StrAppend(&svg, "<text x=\"50\" y=\"49\" fill=\"", kAsyncColor,
                  "\">async: a step for each gradient, as they come</text>\n");
  absl::StrAppend(&svg, "<text x=\"520\" y=\"49\" fill=\"", kSyncColor,
                  "\">sync: one step with the mean of both</text>\n");
  DrawFirstRound(options, async_values, sync_values, &svg);
  DrawAllRounds(options, async_values, sync_values, &svg);
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace shoal
