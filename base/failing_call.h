// (testonly) Makes a system call fail with an errno, for tests of what follows from it.
#ifndef SHOAL_BASE_FAILING_CALL_H_
#define SHOAL_BASE_FAILING_CALL_H_

#include <functional>

namespace shoal {

// Runs `work` on a thread on which every system call of this number (SYS_read, say) fails with
// `error` and has no effect. Returns when it has ended. Other threads are not affected.
void RunWithFailingCall(long number, int error, const std::function<void()>& work);

}  // namespace shoal

#endif  // SHOAL_BASE_FAILING_CALL_H_
