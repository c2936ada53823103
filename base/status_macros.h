// RETURN_IF_ERROR and ASSIGN_OR_RETURN return an error to the caller of the enclosing function;
// otherwise that function continues with the value.
//
//   RETURN_IF_ERROR(file->Sync());
//   ASSIGN_OR_RETURN(std::unique_ptr<File> file, file_system->Open(path));
//
// A type with a comma in it goes in parentheses: ASSIGN_OR_RETURN((std::map<A, B> map), Load()).
#ifndef SHOAL_BASE_STATUS_MACROS_H_
#define SHOAL_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                                       \
  do {                                                                    \
    ::absl::Status shoal_status = (expression);                           \
    if (__builtin_expect(!shoal_status.ok(), false)) return shoal_status; \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  SHOAL_ASSIGN_OR_RETURN_IMPL(SHOAL_CONCAT(shoal_status_or_, __LINE__), target, expression)

#define SHOAL_ASSIGN_OR_RETURN_IMPL(result, target, expression)                 \
  auto result = (expression);                                                   \
  if (__builtin_expect(!result.ok(), false)) return std::move(result).status(); \
  SHOAL_STRIP_PARENTHESES(target) = *std::move(result)

#define SHOAL_CONCAT_IMPL(a, b) a##b
#define SHOAL_CONCAT(a, b) SHOAL_CONCAT_IMPL(a, b)

// Drops one pair of parentheses around the argument, if it has one.
#define SHOAL_STRIP_PARENTHESES(x) SHOAL_STRIP_DONE(SHOAL_STRIP_TRY x)
#define SHOAL_STRIP_TRY(...) SHOAL_STRIP_TRY __VA_ARGS__
#define SHOAL_STRIP_DONE(...) SHOAL_STRIP_CONCAT(__VA_ARGS__)
#define SHOAL_STRIP_CONCAT(...) SHOAL_STRIP_CONCAT2(__VA_ARGS__)
#define SHOAL_STRIP_CONCAT2(...) SHOAL_STRIPPED_##__VA_ARGS__
#define SHOAL_STRIPPED_SHOAL_STRIP_TRY

#endif  // SHOAL_BASE_STATUS_MACROS_H_
