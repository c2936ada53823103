#!/usr/bin/env python3
"""Tests which declarations undefined_functions.py reports, and which it accepts."""
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).parent / "undefined_functions.py"

HEADER = """
// Output InAComment(int x);
Output Build(const Graph& graph,
             std::function<void(int)> done);
std::string Gone(int x);

class Net {
 public:
  explicit Net(int size);
  virtual void Interface() = 0;
  int Inline() const { return Other(size_); }
  absl::Status Run(int x) const EXCLUDES(mu_);
  absl::Status Lost(int x) const EXCLUDES(mu_);
};
"""
SOURCE = """
Output Build(const Graph& graph, std::function<void(int)> done) {
  if (Gone(1)) return Lost(2);
}
Net::Net(int size) : size_(size) {}
absl::Status Net::Run(int x) const {
  return "Net::Lost(int x) {";
}
"""


def run_on(header, source):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        subprocess.run(["git", "init", "-q", name], check=True)
        (root / "net.h").write_text(header)
        (root / "net.cc").write_text(source)
        return subprocess.run([sys.executable, TOOL, name], capture_output=True, text=True, check=False)


def main():
    refused = run_on(HEADER, SOURCE)
    assert refused.returncode == 1, refused
    assert refused.stdout == "net.h:5: Gone has no definition\nnet.h:13: Lost has no definition\n", refused

    # A member does not define the function of a namespace, nor the reverse.
    refused = run_on("int Free();\n", "int Net::Free() {}\n")
    assert refused.stdout == "net.h:1: Free has no definition\n", refused

    accepted = run_on(HEADER, SOURCE + "std::string Gone(int x) {}\nabsl::Status Net::Lost(int x) const {}\n")
    assert accepted.returncode == 0 and not accepted.stdout, accepted


if __name__ == "__main__":
    main()
