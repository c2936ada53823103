#ifndef SHOAL_CHIEF_LEDGERS_GRADIENT_NORMS_H_
#define SHOAL_CHIEF_LEDGERS_GRADIENT_NORMS_H_

#include <cstdint>
#include <map>
#include <optional>

namespace shoal {

// Clips by the global norm of a step's mean gradient (SYNC; Pascanu et al. 2013,
// tf.clip_by_global_norm). Every ps sends the squared norms of its slices. They are added in the
// order of the slices, whichever arrived first, and give the scale of the step:
//   scale = clip / max(norm, clip)
// Not thread-safe.
class GradientNorms {
 public:
  // `num_slices` is the number of slices that have gradients.
  GradientNorms(double clip, uint64_t num_slices) : clip_(clip), num_slices_(num_slices) {}

  // Takes the norms of a step. If there are many steps, only the newest ones are kept.
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

#endif  // SHOAL_CHIEF_LEDGERS_GRADIENT_NORMS_H_
