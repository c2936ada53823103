// Compiled by Bazel when a program is linked. With --stamp it knows the commit, from
// --workspace_status_command (deploy/python/build); otherwise Bazel gives it other text.
namespace shoal {

extern const char* const kStampedCommit;

#ifdef BUILD_SCM_REVISION
const char* const kStampedCommit = BUILD_SCM_REVISION;
#else
const char* const kStampedCommit = "";
#endif

}  // namespace shoal
