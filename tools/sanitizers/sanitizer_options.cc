// Options and suppressions of the sanitizers, compiled in so that a program started by hand behaves
// as under the tests. The runtime looks these functions up by name. Each entry explains why it is
// necessary; remove it when the library that it names is fixed or instrumented.

// NOLINTBEGIN(bugprone-reserved-identifier): the names are those of the runtimes.
extern "C" {

__attribute__((used, visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_string_checks=1";
}

__attribute__((used, visibility("default"))) const char* __ubsan_default_options();
const char* __ubsan_default_options() { return "print_stacktrace=1:halt_on_error=1"; }

__attribute__((used, visibility("default"))) const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() {
  return
      // The OpenCL loader and oneDNN's OpenMP pool keep their tables until the process ends.
      "leak:libOpenCL.so\n"
      // A server with a call that never returns is left alone on purpose.
      "leak:shoal::GrpcServer::Stop\n"
      "leak:libgomp.so\n";
}

__attribute__((used, visibility("default"))) const char* __tsan_default_options();
const char* __tsan_default_options() {
  // Debian's gRPC, protobuf, Abseil and oneDNN are not instrumented: what happens inside them is
  // not judged.
  return "ignore_noninstrumented_modules=1:halt_on_error=1:second_deadlock_stack=1";
}

__attribute__((used, visibility("default"))) const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return
      // Memory that one of our threads wrote and gRPC hands to another: the hand-over is a
      // synchronization inside the uninstrumented library, which the tool cannot see.
      "race:^grpc::\n"
      "race:^grpc_core::\n"
      "called_from_lib:libgrpc.so\n"
      "called_from_lib:libgpr.so\n"
      // The threads of a server that was left alone because a call of it never returned.
      "thread:grpc_core::Thread\n"
      // oneDNN's OpenMP barriers are futexes in libgomp.
      "called_from_lib:libgomp.so\n";
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
