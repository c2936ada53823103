#ifndef SHOAL_CHIEF_SESSION_ASYNC_RELOADS_H_
#define SHOAL_CHIEF_SESSION_ASYNC_RELOADS_H_

#include <cstdint>
#include <vector>

#include "chief/session/async_session.h"
#include "chief/session/ps_reloads.h"
#include "chief/session/session_context.h"

namespace shoal {

// In asynchronous training a lost ps alone loads the last checkpoint while the others train. Before
// it serves, the chief asks it which batches it has; the batches that it lacks are computed again.
class AsyncReloads : public PsReloads {
 public:
  // Both are borrowed.
  AsyncReloads(SessionContext* context, AsyncSession* async) : context_(*context), async_(*async) {}

  bool LoadsWhileTraining() const override { return true; }
  bool MayLoad() const override { return !async_.is_writing(); }
  void OnLoaded(uint32_t ps, uint64_t incarnation,
                const v1::LoadSlicesResponse& response) override {
    async_.OnLoaded(ps, incarnation, response);
  }
  std::vector<uint32_t> EpochsToAsk(uint32_t ps) const override { return async_.EpochsToAsk(ps); }
  bool OnApplied(uint32_t ps, uint32_t epoch, const v1::GetAppliedResponse& response) override;
  bool AllServe() const override { return async_.all_serve(); }

 private:
  SessionContext& context_;
  AsyncSession& async_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ASYNC_RELOADS_H_
