#include "ml/data/clicks_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "ml/data/dataset.h"

// Compiled with -ffp-contract=off, and without the C library's functions where values are made, so
// that examples have the same bytes on all machines.

namespace shoal {
namespace {

constexpr int kDim = 2;  // of the hidden vectors

// The numbers of ids in the columns of Criteo's Display Advertising Challenge.
constexpr std::array<double, ClicksModel::kColumns> kCardinalities = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

constexpr uint32_t kListsEvery = 4;  // Columns c4, c8, ... are lists if multi_hot is set.

// The hidden model.
constexpr double kClicks = 0.25;    // the share of clicks, approximately
constexpr int kCalibration = 4096;  // examples from which the bias follows
constexpr float kNumberScale = 0.6f;
constexpr float kWeightScale = 0.8f;
constexpr float kVectorScale = 0.42f;
constexpr float kRareFrom = 6;  // The values of this id are a quarter as large as those of id 0.

// Purposes of random keys.
constexpr uint64_t kDraws = 1, kNumberWeights = 2, kIdWeights = 3;

// Returns (x + 1)^(-1/10) for x >= 0 by bisection.
double InverseTenthRoot(double x) {
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    const double square = middle * middle, fourth = square * square;
    (fourth * fourth * square * (x + 1) < 1 ? low : high) = middle;
  }
  return low;
}

// Returns 1 / (1 + e^-z), within 1e-12, for |z| < 700.
double Sigmoid(double z) {
  constexpr double kLn2 = 0.69314718055994530942;
  const double powers = -z / kLn2;
  const auto whole = static_cast<int64_t>(powers + (powers < 0 ? -0.5 : 0.5));
  const double rest = -z - static_cast<double>(whole) * kLn2;
  double exponential = 1;
  for (int k = 14; k >= 1; --k) exponential = 1 + exponential * rest / k;
  const auto bits = static_cast<uint64_t>(whole + 1023) << 52;
  double power = 0;
  std::memcpy(&power, &bits, sizeof(power));
  return 1 / (1 + exponential * power);
}

// The random words of an example, in the order in which they are used.
class Words {
 public:
  Words(uint64_t key, uint64_t example) : key_(key), example_(example) {}

  uint32_t Next() {
    if (at_ == 4) {
      block_ = Philox(key_, next_block_++, example_);
      at_ = 0;
    }
    return block_[at_++];
  }

 private:
  const uint64_t key_;
  const uint64_t example_;
  PhiloxBlock block_ = {};
  uint64_t next_block_ = 0;
  size_t at_ = 4;
};

// Sums over the ids of an example, from which their part of the logit follows.
struct Sums {
  float weights = 0;
  std::array<float, kDim> vectors = {};
  float squares = 0;
};

// Adds the weight and the vector of an id, 12-bit numbers of its hash.
void AddId(const ClicksColumn& column, uint64_t id, Sums* sums) {
  uint64_t bits = MixBits(column.key + id * 0x9e3779b97f4a7c15u);
  const float shrunk = kRareFrom / (kRareFrom + static_cast<float>(id));
  const float size = column.list_scale * shrunk * shrunk * (1.0f / 2048);
  const auto next = [&] {
    const float value = static_cast<float>(static_cast<int32_t>(bits & 0xfff) - 2048) * size;
    bits >>= 12;
    return value;
  };
  sums->weights += next() * kWeightScale;
  for (float& sum : sums->vectors) {
    const float value = next() * kVectorScale;
    sum += value;
    sums->squares += value * value;
  }
}

// Returns the id with this rank among the column's ids, from 1. The ids from 2^k to 2^(k+1) - 1
// take turns at the ranks from 2^k to 2^(k+1) - 1.
uint64_t IdOf(const ClicksColumn& column, uint64_t rank, double time) {
  const uint64_t octave = uint64_t{1} << (63 - __builtin_clzll(rank));
  const auto shift = static_cast<uint64_t>(static_cast<double>(octave) * time);
  const uint64_t turned = octave + ((rank + shift) & (octave - 1));
  return (turned <= column.ids ? turned : rank) - 1;
}

uint64_t DrawId(const ClicksColumn& column, double time, Words* words) {
  const double u = static_cast<double>(words->Next()) * (1.0 / 4294967296.0);
  const double y = 1 - u * column.span;
  const double square = y * y, fourth = square * square;
  const auto rank = static_cast<uint64_t>(1 / (fourth * fourth * square));
  return IdOf(column, std::min(rank, column.ids), time);
}

}  // namespace

ClicksModel::ClicksModel(const ClicksOptions& options)
    : options_(options), draws_(DeriveKey(options.seed, kDraws)) {
  const uint64_t number_key = DeriveKey(options.seed, kNumberWeights);
  for (int i = 0; i < kNumbers; ++i) {
    const auto bits = static_cast<uint32_t>(RandomBits(number_key, static_cast<uint64_t>(i)));
    number_weights_[i] = (UniformFromBits(bits) * 2 - 1) * kNumberScale;
  }
  const uint64_t id_key = DeriveKey(options.seed, kIdWeights);
  for (uint32_t c = 0; c < kColumns; ++c) {
    ClicksColumn& column = columns_[c];
    column.ids = static_cast<uint64_t>(std::max(2.0, kCardinalities[c] * options.scale));
    column.span = 1 - InverseTenthRoot(static_cast<double>(column.ids));
    column.key = DeriveKey(id_key, c);
    if ((c + 1) % kListsEvery == 0) column.most = options.multi_hot;
    if (column.most > 0) {
      column.list_scale = 1 / std::sqrt(static_cast<float>(column.most));
    }
  }
  Calibrate();
}

ClicksModel::Label ClicksModel::Make(int64_t index, float* numbers,
                                     absl::Span<void* const> columns) const {
  const Drawn drawn =
      Draw(options_.first_example + static_cast<uint64_t>(index), TimeOf(index), numbers, columns);
  const double p = Sigmoid(drawn.logit + bias_);
  return {p, drawn.chance < p};
}

ClicksModel::Label ClicksModel::LabelOf(int64_t index) const {
  float numbers[kNumbers];
  return Make(index, numbers, {});
}

double ClicksModel::TimeOf(int64_t index) const {
  const uint64_t days = options_.last_day - options_.first_day + 1;
  const uint64_t day =
      static_cast<uint64_t>(index) * days / static_cast<uint64_t>(options_.examples);
  return static_cast<double>(options_.first_day + day) / static_cast<double>(options_.days);
}

ClicksModel::Drawn ClicksModel::Draw(uint64_t number, double time, float* numbers,
                                     absl::Span<void* const> columns) const {
  Words words(draws_, number);
  float logit = 0;
  for (int i = 0; i < kNumbers; ++i) {
    const uint32_t bits = words.Next();
    const uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
    numbers[i] = (static_cast<float>(sum) - 510) * (1.0f / 147.8f);
    logit += numbers[i] * number_weights_[i];
  }
  Sums sums;
  for (size_t c = 0; c < kColumns; ++c) {
    const ClicksColumn& column = columns_[c];
    const uint64_t count = column.most == 0 ? 1 : words.Next() % (uint64_t{column.most} + 1);
    RaggedRows* const rows = columns.empty() ? nullptr : &RaggedOutput(columns[c]);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t id = DrawId(column, time, &words);
      AddId(column, id, &sums);
      if (rows != nullptr) rows->AddKey(static_cast<int64_t>(id));
    }
    if (rows != nullptr) rows->EndExample();
  }
  float products = -sums.squares;
  for (const float sum : sums.vectors) products += sum * sum;
  logit += sums.weights + products / 2;
  Drawn drawn;
  drawn.logit = static_cast<double>(std::clamp(logit, -30.0f, 30.0f));
  drawn.chance = static_cast<double>(words.Next()) * (1.0 / 4294967296.0);
  return drawn;
}

void ClicksModel::Calibrate() {
  std::vector<double> logits;
  for (uint64_t i = 0; i < kCalibration; ++i) {
    float numbers[kNumbers];
    logits.push_back(Draw((uint64_t{1} << 60) + i, 0.5, numbers, {}).logit);
  }
  double low = -60, high = 60;
  for (int step = 0; step < 50; ++step) {
    bias_ = low + (high - low) / 2;
    double clicks = 0;
    for (const double logit : logits) clicks += Sigmoid(logit + bias_);
    (clicks < kClicks * kCalibration ? low : high) = bias_;
  }
}

}  // namespace shoal
