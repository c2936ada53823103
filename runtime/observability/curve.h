// The course of a number over the steps of a run, in bounded memory.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_CURVE_H_
#define SHOAL_RUNTIME_OBSERVABILITY_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal {

struct CurvePoint {
  uint64_t step = 0;
  double value = 0;
};

// Keeps at most kMostPoints means. A point covers `width` consecutive steps; when there are too
// many points, the width doubles and neighbours become one point. Not thread-safe.
class Curve {
 public:
  static constexpr size_t kMostPoints = 500;

  // Steps must not fall, except after GoBackTo. Values that are not finite are left out.
  void Add(uint64_t step, double value);
  // Removes what was added for steps above `step`, with the whole point that covers it and later
  // steps.
  void GoBackTo(uint64_t step);

  // Returns the means, each at the last step that is in it, in the order of steps.
  std::vector<CurvePoint> Points() const;

 private:
  struct Mean {
    uint64_t index = 0;      // The steps index * width to (index + 1) * width - 1.
    uint64_t last_step = 0;  // The last one with a value.
    double sum = 0;
    uint64_t count = 0;
  };

  void Halve();

  uint64_t width_ = 1;
  std::vector<Mean> means_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_CURVE_H_
