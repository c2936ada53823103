#ifndef SHOAL_CHIEF_GRADIENT_NORMS_H_
#define SHOAL_CHIEF_GRADIENT_NORMS_H_

#include <cstdint>
#include <map>
#include <optional>

namespace shoal {

// Clipping by the global norm of a step's mean gradient (SYNC; Pascanu et al. 2013,
// tf.clip_by_global_norm): every ps sends the squared norms of its slices; added in the order of
// slices, whoever sent first, they give the one scale of the step:
//   scale = clip / max(norm, clip)
// One thread at a time.
class GradientNorms {
 public:
  // `num_slices`: how many slices have gradients.
  GradientNorms(double clip, uint64_t num_slices) : clip_(clip), num_slices_(num_slices) {}

  // Of many steps, the newest are kept.
  void Add(uint64_t step, uint32_t slice, double squared_norm);
  // Once all slices are there.
  std::optional<double> Scale(uint64_t step) const;
  void ForgetBelow(uint64_t step) { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }
  void Clear() { steps_.clear(); }

 private:
  const double clip_;
  const uint64_t num_slices_;
  std::map<uint64_t, std::map<uint32_t, double>> steps_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_GRADIENT_NORMS_H_
