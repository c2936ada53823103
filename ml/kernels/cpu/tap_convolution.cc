#include "ml/kernels/cpu/tap_convolution.h"

#include <algorithm>
#include <vector>

#include "ml/kernels/cpu/gemm.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

constexpr int64_t kBlock = 16;

// A pair of an input and an output pixel that a tap connects.
struct Pair {
  int64_t in, out;
};

// The pairs of one tap; each has `images` rows in the matrices.
struct Tap {
  int64_t index;  // row by row in the window
  int64_t first_pair;
  std::vector<Pair> pairs;
};

std::vector<Tap> TapsOf(const ConvolutionShape& s) {
  const WindowShape& w = s.window;
  std::vector<Tap> taps;
  int64_t first_pair = 0;
  for (int64_t index = 0; index < w.kernel[0] * w.kernel[1]; ++index) {
    const int64_t tap[2] = {index / w.kernel[1], index % w.kernel[1]};
    Tap entry{index, first_pair, {}};
    for (int64_t out = 0; out < s.out_size[0] * s.out_size[1]; ++out) {
      const int64_t at[2] = {out / s.out_size[1], out % s.out_size[1]};
      int64_t in[2];
      bool inside = true;
      for (int a = 0; a < 2; ++a) {
        in[a] = at[a] * w.stride[a] - w.pad_before[a] + tap[a] * w.dilation[a];
        inside = inside && in[a] >= 0 && in[a] < s.in_size[a];
      }
      if (inside) entry.pairs.push_back({in[0] * s.in_size[1] + in[1], out});
    }
    first_pair += static_cast<int64_t>(entry.pairs.size());
    if (!entry.pairs.empty()) taps.push_back(std::move(entry));
  }
  return taps;
}

class TapConvolution : public ConvolutionPrimitive {
 public:
  explicit TapConvolution(const ConvolutionOptions& options)
      : o_(options),
        taps_(TapsOf(options.shape)),
        pairs_(taps_.back().first_pair + static_cast<int64_t>(taps_.back().pairs.size())),
        rows_(pairs_ * options.shape.batch),
        weights_of_tap_(options.shape.out_channels * options.shape.in_channels) {}

  // Weights [tap][out][in], then rows of inputs and of outputs, [pair][image][channel].
  size_t workspace_bytes() const override {
    return static_cast<size_t>(
        4 * (WeightFloats() + rows_ * (o_.shape.in_channels + o_.shape.out_channels)));
  }

  void PackWeights(const float* weights, char* workspace) override {
    float* packed = reinterpret_cast<float*>(workspace);
    const int64_t window = o_.shape.window.kernel[0] * o_.shape.window.kernel[1];
    ForEachTapOfWeights([&](int64_t t, int64_t begin, int64_t end) {
      float* to = packed + t * weights_of_tap_;
      const float* from = weights + taps_[t].index;
      for (int64_t k = begin; k < end; ++k) to[k] = from[k * window];
    });
  }

  void Run(const Buffers& b, char* workspace) override {
    float* weights = reinterpret_cast<float*>(workspace);
    float* in_rows = weights + WeightFloats();
    float* out_rows = in_rows + rows_ * o_.shape.in_channels;
    switch (o_.product) {
      case ConvolutionProduct::kForward:
        Gather(InSide(), b.input, in_rows);
        MultiplyTaps(in_rows, o_.shape.in_channels, true, weights, out_rows, o_.shape.out_channels);
        return Combine(OutSide(), out_rows, o_.has_bias ? b.bias : nullptr, b.result);
      case ConvolutionProduct::kInputGradient:
        Gather(OutSide(), b.output, out_rows);
        MultiplyTaps(out_rows, o_.shape.out_channels, false, weights, in_rows,
                     o_.shape.in_channels);
        return Combine(InSide(), in_rows, nullptr, b.result);
      case ConvolutionProduct::kWeightGradient:
        Gather(InSide(), b.input, in_rows);
        Gather(OutSide(), b.output, out_rows);
        WeightGradient(in_rows, out_rows, weights, b.result);
        if (o_.has_bias) BiasGradient(b.output, b.bias_gradient);
        return;
    }
  }

  std::string implementation() const override { return "taps"; }

 private:
  // The images on one side of the convolution.
  struct Side {
    int64_t channels, pixels;
    int64_t Pair::*pixel;
  };
  Side InSide() const {
    return {o_.shape.in_channels, o_.shape.in_size[0] * o_.shape.in_size[1], &Pair::in};
  }
  Side OutSide() const {
    return {o_.shape.out_channels, o_.shape.out_size[0] * o_.shape.out_size[1], &Pair::out};
  }

  int64_t WeightFloats() const { return static_cast<int64_t>(taps_.size()) * weights_of_tap_; }
  int64_t FirstRow(const Tap& tap) const { return tap.first_pair * o_.shape.batch; }
  int64_t RowsOf(const Tap& tap) const {
    return static_cast<int64_t>(tap.pairs.size()) * o_.shape.batch;
  }

  // Calls body(tap, begin, end) for ranges of weights whose windows stay in L1 from tap to tap.
  template <typename Body>
  void ForEachTapOfWeights(Body body) const {
    constexpr int64_t kRange = 512;
    ParallelFor(o_.threads, (weights_of_tap_ + kRange - 1) / kRange,
                [&](int64_t first, int64_t last) {
                  for (int64_t r = first; r < last; ++r) {
                    const int64_t end = std::min((r + 1) * kRange, weights_of_tap_);
                    for (size_t t = 0; t < taps_.size(); ++t) {
                      body(static_cast<int64_t>(t), r * kRange, end);
                    }
                  }
                });
  }

  // Blocked images -> rows.
  void Gather(const Side& side, const float* images, float* rows) const {
    const int64_t batch = o_.shape.batch;
    ParallelFor(o_.threads, batch, [&](int64_t begin, int64_t end) {
      for (const Tap& tap : taps_) {
        for (size_t p = 0; p < tap.pairs.size(); ++p) {
          const int64_t pixel = tap.pairs[p].*side.pixel;
          float* of_pair =
              rows + (tap.first_pair + static_cast<int64_t>(p)) * batch * side.channels;
          for (int64_t n = begin; n < end; ++n) {
            const float* image = images + n * side.channels * side.pixels + pixel * kBlock;
            float* row = of_pair + n * side.channels;
            for (int64_t c = 0; c < side.channels; c += kBlock) {
              std::copy_n(image + c * side.pixels, kBlock, row + c);
            }
          }
        }
      }
    });
  }

  // Rows of one side times each tap's weights [out][in] (transposed: from in to out) -> rows of the
  // other side.
  void MultiplyTaps(const float* from, int64_t from_channels, bool is_transposed,
                    const float* weights, float* to, int64_t to_channels) const {
    OmpThreadsScope scope(o_.threads);
    for (size_t t = 0; t < taps_.size(); ++t) {
      const int64_t first = FirstRow(taps_[t]);
      Gemm(RowsOf(taps_[t]), to_channels, from_channels,
           {from + first * from_channels, from_channels},
           {weights + static_cast<int64_t>(t) * weights_of_tap_, o_.shape.in_channels,
            is_transposed},
           to + first * to_channels, to_channels);
    }
  }

  // Sums the rows of each pixel, in the order of taps, into blocked images.
  void Combine(const Side& side, const float* rows, const float* bias, float* images) const {
    const int64_t batch = o_.shape.batch;
    ParallelFor(o_.threads, batch, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        float* image = images + n * side.channels * side.pixels;
        FillBias(side, bias, image);
        for (const Tap& tap : taps_) {
          for (size_t p = 0; p < tap.pairs.size(); ++p) {
            const int64_t pair = tap.first_pair + static_cast<int64_t>(p);
            const float* row = rows + (pair * batch + n) * side.channels;
            float* pixel = image + tap.pairs[p].*side.pixel * kBlock;
            for (int64_t c = 0; c < side.channels; c += kBlock) {
              float* block = pixel + c * side.pixels;
              for (int64_t i = 0; i < kBlock; ++i) block[i] += row[c + i];
            }
          }
        }
        for (int64_t i = 0; o_.relu && i < side.channels * side.pixels; ++i) {
          image[i] = image[i] < 0.0f ? 0.0f : image[i];
        }
      }
    });
  }

  static void FillBias(const Side& side, const float* bias, float* image) {
    if (bias == nullptr) {
      std::fill_n(image, side.channels * side.pixels, 0.0f);
      return;
    }
    for (int64_t c = 0; c < side.channels; c += kBlock) {
      for (int64_t pixel = 0; pixel < side.pixels; ++pixel) {
        std::copy_n(bias + c, kBlock, image + c * side.pixels + pixel * kBlock);
      }
    }
  }

  void WeightGradient(const float* in_rows, const float* out_rows, float* of_taps,
                      float* result) const {
    const int64_t in = o_.shape.in_channels, out = o_.shape.out_channels;
    const int64_t window = o_.shape.window.kernel[0] * o_.shape.window.kernel[1];
    {
      OmpThreadsScope scope(o_.threads);
      for (size_t t = 0; t < taps_.size(); ++t) {
        const int64_t first = FirstRow(taps_[t]);
        Gemm(out, in, RowsOf(taps_[t]), {out_rows + first * out, out, true},
             {in_rows + first * in, in}, of_taps + static_cast<int64_t>(t) * weights_of_tap_, in);
      }
    }
    if (static_cast<int64_t>(taps_.size()) < window) {
      std::fill_n(result, weights_of_tap_ * window, 0.0f);
    }
    ForEachTapOfWeights([&](int64_t t, int64_t begin, int64_t end) {
      const float* from = of_taps + t * weights_of_tap_;
      float* to = result + taps_[t].index;
      for (int64_t k = begin; k < end; ++k) to[k * window] = from[k];
    });
  }

  void BiasGradient(const float* dy, float* result) const {
    const Side side = OutSide();
    std::fill_n(result, side.channels, 0.0f);
    for (int64_t n = 0; n < o_.shape.batch; ++n) {
      for (int64_t c = 0; c < side.channels; c += kBlock) {
        const float* block = dy + (n * side.channels + c) * side.pixels;
        for (int64_t k = 0; k < side.pixels * kBlock; ++k) result[c + k % kBlock] += block[k];
      }
    }
  }

  const ConvolutionOptions o_;
  const std::vector<Tap> taps_;
  const int64_t pairs_, rows_, weights_of_tap_;
};

}  // namespace

bool PrefersTaps(const ConvolutionOptions& options) {
  const ConvolutionShape& s = options.shape;
  const bool is_blocked =
      options.input_layout == Layout::kBlocked16 && options.output_layout == Layout::kBlocked16;
  const bool has_blocks = s.in_channels % kBlock == 0 && s.out_channels % kBlock == 0;
  return is_blocked && has_blocks && s.group == 1 && s.batch >= 8 &&
         s.out_size[0] * s.out_size[1] <= 4 && s.window.kernel[0] * s.window.kernel[1] > 1 &&
         std::min(s.in_channels, s.out_channels) >= 64 && !TapsOf(s).empty();
}

std::unique_ptr<ConvolutionPrimitive> CreateTapConvolution(const ConvolutionOptions& options) {
  return std::make_unique<TapConvolution>(options);
}

}  // namespace shoal::cpu
