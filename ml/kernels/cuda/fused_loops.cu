#include "ml/kernels/cuda/fused_loops.h"

#define SHOAL_LOOPS_HEADER "ml/kernels/cuda/device_loops.cuh"
#include "ml/kernels/cuda/loop_functions.inc"

namespace shoal::cuda {
namespace {

using on_device::Activate;
using on_device::FloatSum;
using on_device::ForEach;
using on_device::SlopeOf;
using on_device::SumRows;
using on_device::Widened;

struct BiasAndActivation {
  const float* bias;
  float* y;
  int channels, inner;
  Activation activation;
  LOOP_FUNCTION void operator()(int i) const {
    const float added = bias == nullptr ? 0 : bias[i / inner % channels];
    y[i] = Activate(activation, y[i] + added);
  }
};

struct ActivationSlope {
  const float *y, *dy;
  float* dz;
  Activation activation;
  LOOP_FUNCTION void operator()(int i) const { dz[i] = SlopeOf(activation, y[i]) * dy[i]; }
};

struct ReluOfInput {
  const float* x;
  float* dx;
  LOOP_FUNCTION void operator()(int i) const {
    if (!(x[i] > 0)) dx[i] = 0;
  }
};

struct RepeatOne {
  const float* from;
  float* to;
  LOOP_FUNCTION void operator()(int i) const { to[i] = *from; }
};

struct ChannelSums : FloatSum {
  const float* x;
  float* sums;
  int channels, inner;
  LOOP_FUNCTION float Load(int channel, int k) const {
    const int outer = k / inner;
    return x[(outer * channels + channel) * inner + k - outer * inner];
  }
  LOOP_FUNCTION void Store(int channel, float sum) const { sums[channel] = sum; }
};

template <typename T>
struct PadPlane {
  Frame frame;
  const T* x;
  T* padded;
  LOOP_FUNCTION void operator()(int i) const {
    const int column = i % frame.padded_width - frame.left;
    const int row = i / frame.padded_width % frame.padded_height - frame.top;
    const int plane = i / (frame.padded_width * frame.padded_height);
    const bool inside = row >= 0 && row < frame.height && column >= 0 && column < frame.width;
    padded[i] = inside ? x[(plane * frame.height + row) * frame.width + column] : T{0};
  }
};

template <typename T>
struct CropPlane {
  Frame frame;
  const T* padded;
  T* x;
  LOOP_FUNCTION void operator()(int i) const {
    const int column = i % frame.width + frame.left;
    const int row = i / frame.width % frame.height + frame.top;
    const int plane = i / (frame.width * frame.height);
    x[i] = padded[(plane * frame.padded_height + row) * frame.padded_width + column];
  }
};

struct WidenElement {
  const uint16_t* from;
  float* to;
  LOOP_FUNCTION void operator()(int i) const { to[i] = Widened(from[i]); }
};

template <typename T>
void PadEach(void* stream, const Frame& frame, const T* x, T* padded) {
  ForEach(stream, frame.padded_count(), PadPlane<T>{frame, x, padded});
}

template <typename T>
void CropEach(void* stream, const Frame& frame, const T* padded, T* x) {
  ForEach(stream, frame.planes * frame.height * frame.width, CropPlane<T>{frame, padded, x});
}

}  // namespace

void AddBiasAndActivate(void* stream, const ChannelView& view, const float* bias,
                        Activation activation, float* y) {
  ForEach(stream, view.count(), BiasAndActivation{bias, y, view.channels, view.inner, activation});
}

void UndoActivation(void* stream, int count, Activation activation, const float* y, const float* dy,
                    float* dz) {
  ForEach(stream, count, ActivationSlope{y, dy, dz, activation});
}

void UndoRelu(void* stream, int count, const float* x, float* dx) {
  ForEach(stream, count, ReluOfInput{x, dx});
}

void Repeat(void* stream, const float* from, int count, float* to) {
  ForEach(stream, count, RepeatOne{from, to});
}

size_t SumChannelsWorkspace(const ChannelView& view) {
  const int parts = PartsOfReduction(view.channels, view.outer * view.inner);
  return parts == 1 ? 0 : sizeof(float) * static_cast<size_t>(view.channels) * parts;
}

void SumChannels(void* stream, const ChannelView& view, const float* x, void* workspace,
                 float* sums) {
  ChannelSums sum;
  sum.x = x;
  sum.sums = sums;
  sum.channels = view.channels;
  sum.inner = view.inner;
  SumRows(stream, view.channels, view.outer * view.inner, workspace, sum);
}

void PadPlanes(void* stream, const Frame& frame, const float* x, float* padded) {
  PadEach(stream, frame, x, padded);
}

void PadPlanes(void* stream, const Frame& frame, const uint16_t* x, uint16_t* padded) {
  PadEach(stream, frame, x, padded);
}

void CropPlanes(void* stream, const Frame& frame, const float* padded, float* x) {
  CropEach(stream, frame, padded, x);
}

void CropPlanes(void* stream, const Frame& frame, const uint16_t* padded, uint16_t* x) {
  CropEach(stream, frame, padded, x);
}

void WidenBfloat16(void* stream, const uint16_t* from, int count, float* to) {
  ForEach(stream, count, WidenElement{from, to});
}

}  // namespace shoal::cuda
