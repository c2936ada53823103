#ifndef SHOAL_CHIEF_SESSION_GRADIENT_NORMS_H_
#define SHOAL_CHIEF_SESSION_GRADIENT_NORMS_H_

#include <cstdint>
#include <map>
#include <optional>

namespace shoal {

// Clipping by the global norm of a step's mean gradient (SYNC; Pascanu et al. 2013,
// tf.clip_by_global_norm): every ps sends the squared norms of its slices; added in the order of
// slices, whichever came first, they give the scale of the step:
//   scale = clip / max(norm, clip)
// One thread at a time.
class GradientNorms {
 public:
  // `num_slices` is the number of slices that have gradients.
  GradientNorms(double clip, uint64_t num_slices) : clip_(clip), num_slices_(num_slices) {}

  // Keeps the newest steps only, if there are many.
  void Add(uint64_t step, uint32_t slice, double squared_norm);
  // Returns the scale of the step once the norms of all slices are known.
  std::optional<double> Scale(uint64_t step) const;
  void ForgetBelow(uint64_t step) { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }
  void Clear() { steps_.clear(); }

 private:
  const double clip_;
  const uint64_t num_slices_;
  std::map<uint64_t, std::map<uint32_t, double>> steps_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_GRADIENT_NORMS_H_
