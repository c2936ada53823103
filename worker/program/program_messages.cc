#include "worker/program/program_messages.h"

#include <cstring>

namespace shoal {
namespace {

// Messages are little-endian on every machine.
template <typename Unsigned>
void Append(Unsigned value, std::string* out) {
  for (size_t k = 0; k < sizeof(Unsigned); ++k) {
    out->push_back(static_cast<char>(value >> 8 * k & 0xff));
  }
}

}  // namespace

MessageWriter::MessageWriter(ProgramMessage type, std::string* out)
    : out_(out), begin_(out->size()) {
  U32(0).U32(static_cast<uint32_t>(type));
}

MessageWriter::~MessageWriter() {
  const auto bytes = static_cast<uint32_t>(out_->size() - begin_ - kMessageHeadBytes);
  for (size_t k = 0; k < sizeof(bytes); ++k) {
    (*out_)[begin_ + k] = static_cast<char>(bytes >> 8 * k & 0xff);
  }
}

MessageWriter& MessageWriter::U32(uint32_t value) {
  Append(value, out_);
  return *this;
}

MessageWriter& MessageWriter::U64(uint64_t value) {
  Append(value, out_);
  return *this;
}

MessageWriter& MessageWriter::F64(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return U64(bits);
}

MessageWriter& MessageWriter::Text(absl::string_view text) {
  U32(static_cast<uint32_t>(text.size()));
  out_->append(text.data(), text.size());
  return *this;
}

template <typename Unsigned>
Unsigned MessageReader::Take() {
  ok_ = ok_ && rest_.size() >= sizeof(Unsigned);
  if (!ok_) return 0;
  Unsigned value = 0;
  for (size_t k = 0; k < sizeof(Unsigned); ++k) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(rest_[k])) << 8 * k;
  }
  rest_.remove_prefix(sizeof(Unsigned));
  return value;
}

uint32_t MessageReader::U32() { return Take<uint32_t>(); }

uint64_t MessageReader::U64() { return Take<uint64_t>(); }

double MessageReader::F64() {
  const uint64_t bits = U64();
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::string MessageReader::Text(size_t most_bytes) {
  const uint32_t bytes = U32();
  ok_ = ok_ && bytes <= most_bytes && bytes <= rest_.size();
  if (!ok_) return "";
  std::string text(rest_.substr(0, bytes));
  rest_.remove_prefix(bytes);
  return text;
}

}  // namespace shoal
