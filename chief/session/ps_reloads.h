#ifndef SHOAL_CHIEF_SESSION_PS_RELOADS_H_
#define SHOAL_CHIEF_SESSION_PS_RELOADS_H_

#include <cstdint>
#include <vector>

#include "proto/v1/parameter_service.pb.h"

namespace shoal {

// Decides how a ps that has lost its variables comes back: when it may load the last checkpoint,
// and what the chief has to know from it before it serves. The defaults are those of synchronous
// training, where all ps load together before the next step, and each serves as soon as it has
// loaded. AsyncReloads is the other implementation. Not thread-safe.
class PsReloads {
 public:
  PsReloads() = default;
  virtual ~PsReloads() = default;
  PsReloads(const PsReloads&) = delete;
  PsReloads& operator=(const PsReloads&) = delete;

  // Returns whether one ps may load while the others train.
  virtual bool LoadsWhileTraining() const { return false; }
  // Returns whether ps may load at present.
  virtual bool MayLoad() const { return true; }
  virtual void OnLoaded(uint32_t /*ps*/, uint64_t /*incarnation*/,
                        const v1::LoadSlicesResponse& /*response*/) {}
  // Returns the epochs that the chief has to ask a loaded ps about with GetApplied before it
  // serves.
  virtual std::vector<uint32_t> EpochsToAsk(uint32_t /*ps*/) const { return {}; }
  // Takes the answer of a ps to GetApplied. Returns whether the ps serves from now on.
  virtual bool OnApplied(uint32_t /*ps*/, uint32_t /*epoch*/,
                         const v1::GetAppliedResponse& /*response*/) {
    return false;
  }
  // Returns whether all ps that have loaded serve too.
  virtual bool AllServe() const { return true; }
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_PS_RELOADS_H_
