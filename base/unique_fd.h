// Owns a file descriptor and closes it.
#ifndef SHOAL_BASE_UNIQUE_FD_H_
#define SHOAL_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace shoal {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool is_valid() const { return fd_ >= 0; }

  // Gives up ownership.
  int Release() { return std::exchange(fd_, -1); }

  void Reset(int fd = -1) {
    if (fd_ >= 0 && fd_ != fd) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace shoal

#endif  // SHOAL_BASE_UNIQUE_FD_H_
