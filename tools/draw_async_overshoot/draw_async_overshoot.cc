// Draws docs/images/async_overshoot.svg from two runs on the real push path:
//   bazel run //tools/draw_async_overshoot -- "$PWD/docs/images/async_overshoot.svg"
#include <fstream>
#include <iostream>

#include "tools/draw_async_overshoot/overshoot.h"
#include "tools/draw_async_overshoot/picture.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: draw_async_overshoot FILE.svg\n";
    return 2;
  }
  shoal::OvershootOptions options;
  const auto async_values = shoal::PlayOvershoot(options);
  options.synchronous = true;
  const auto sync_values = shoal::PlayOvershoot(options);
  for (const auto* values : {&async_values, &sync_values}) {
    if (values->ok()) continue;
    std::cerr << "draw_async_overshoot: " << values->status() << "\n";
    return 1;
  }
  std::ofstream file(argv[1]);
  file << shoal::DrawOvershoot(options, *async_values, *sync_values);
  file.close();
  if (!file) {
    std::cerr << "draw_async_overshoot: cannot write " << argv[1] << "\n";
    return 1;
  }
  return 0;
}
