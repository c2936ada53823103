#!/usr/bin/env python3
"""Tests which classes class_sizes.py reports, and what it counts as a method."""
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).parent / "class_sizes.py"

# The methods of a class that has some of every kind, one for each line.
METHODS = """
  explicit Net(int size) : size_{size}, done_([this] { return Size(); }) {}
  virtual ~Net() = default;
  bool operator==(const Net& other) const;
  bool operator<(const Net& other) const { return size_ < other.size_; }
  void operator()(int x);
  explicit operator bool() const;
  static std::function<void(int)> Callback();
  void Push(int x = Default(), std::map<int, std::vector<int>> y = {}) LOCKS_EXCLUDED(mu_);
  template <typename T, class U> T Get(U u) const;
  std::vector<std::function<void(int)>> Split(
      absl::FunctionRef<void(uint32_t)> done);
"""
OTHERS = """
  // void InAComment();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;
  friend bool Equal(const Net& a, const Net& b) { return a == b; }
  using Done = std::function<void(int)>;
  static_assert(sizeof(int) == 4, "int()");
  enum class Kind : int { kA = Value(1), kB };
  struct Inner {
    Inner();
    void Of(int x) { if (x) { Run(x); } }
  };
  const std::function<void(int)> done_;
  std::function<int()> next_ = [] { return Next(); };
  int size_ GUARDED_BY(mu_) = Compute(1);
  alignas(64) int slot_ = 0;
  void (*run_)(int) = nullptr;
  std::string text_ = "void InAText();";
"""
NUM_METHODS = 10


def run_on(body):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        subprocess.run(["git", "init", "-q", name], check=True)
        (root / "net.h").write_text(f"template <class T>\nclass SHOAL_EXPORT Net final : public Base<T> {{\n public:\n{body}}};\n")
        return subprocess.run([sys.executable, TOOL, name], capture_output=True, text=True, check=False)


def main():
    more = "".join(f"  void Method{i}();\n" for i in range(40 - NUM_METHODS))
    for body in (METHODS + OTHERS + more, OTHERS + more + METHODS):
        accepted = run_on(body)
        assert accepted.returncode == 0 and not accepted.stdout, accepted

        refused = run_on(body + "  int One() const { return 1; }\n")
        assert refused.returncode == 1, refused
        assert refused.stdout == "net.h:2: Net has 41 methods; at most 40: split it\n", refused


if __name__ == "__main__":
    main()
