// IDX, the format of the MNIST files: two zero bytes, a dtype code, the rank, big-endian sizes, big-endian
// elements.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "data/byte_reader.hpp"
#include "data/elements.hpp"
#include "data/formats.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::data {
namespace {

constexpr std::string_view kImagesMark = "images-idx3";
constexpr std::string_view kLabelsMark = "labels-idx1";

[[noreturn]] void corrupt(const ByteReader &reader, const std::string &what) {
  throw Error(ErrorCode::corrupt_data, reader.name() + ": " + what);
}

std::optional<Dtype> dtype_of_code(unsigned code) {
  switch (code) {
    case 0x08:
      return Dtype::u8;
    case 0x09:
      return Dtype::i8;
    case 0x0B:
      return Dtype::i16;
    case 0x0C:
      return Dtype::i32;
    case 0x0D:
      return Dtype::f32;
    case 0x0E:
      return Dtype::f64;
    default:
      return std::nullopt;
  }
}

std::uint32_t big_endian_32(std::span<const std::byte, 4> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = (value << 8) | std::to_integer<std::uint32_t>(byte);
  return value;
}

std::array<std::byte, 4> read_four(ByteReader &reader, const char *what) {
  std::array<std::byte, 4> bytes{};
  const std::size_t got = reader.read(bytes);
  if (got != bytes.size()) {
    corrupt(reader,
            std::string("the file ends in its ") + what + " (" + std::to_string(got) + " of 4 bytes)");
  }
  return bytes;
}

struct IdxHeader {
  TensorSpec spec;
  std::uint64_t data_bytes = 0;
};

IdxHeader read_header(ByteReader &reader, std::uint64_t bytes_max) {
  const auto magic = read_four(reader, "magic number");
  const auto code = std::to_integer<unsigned>(magic[2]);
  const auto rank = std::to_integer<unsigned>(magic[3]);
  const auto dtype = dtype_of_code(code);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    corrupt(reader, "this is not an IDX file: its first two bytes are " +
                        std::to_string(std::to_integer<int>(magic[0])) + " and " +
                        std::to_string(std::to_integer<int>(magic[1])) + ", not 0 and 0");
  }
  if (!dtype)
    corrupt(reader,
            "the IDX dtype code " + std::to_string(code) + " is unknown; 8, 9, 11, 12, 13 and 14 are known");
  if (rank == 0 || rank > limits::kTensorRankMax) {
    corrupt(reader, "the IDX rank is " + std::to_string(rank) + "; it must lie between 1 and " +
                        std::to_string(limits::kTensorRankMax));
  }
  IdxHeader header{{reader.name(), *dtype, {}}, element_bytes(*dtype)};
  for (unsigned i = 0; i < rank; ++i) {
    const std::uint64_t size = big_endian_32(read_four(reader, "sizes"));
    if (size == 0) corrupt(reader, "size " + std::to_string(i) + " is 0: the file holds no examples");
    header.spec.shape.push_back(size);
    if (header.data_bytes > bytes_max / size) {
      throw Error(ErrorCode::too_large, reader.name() + " claims more than " + std::to_string(bytes_max) +
                                            " bytes of elements, the most that a dataset file may have");
    }
    header.data_bytes *= size;
  }
  if (!reader.is_gzipped() && reader.file_bytes() != 4 + 4 * rank + header.data_bytes) {
    corrupt(reader, "sizes " + shape_text(header.spec.shape) + " of " + std::string(dtype_name(*dtype)) +
                        " need " + std::to_string(4 + 4 * rank + header.data_bytes) +
                        " bytes, but the file has " + std::to_string(reader.file_bytes()));
  }
  return header;
}

Tensor read_tensor(const std::filesystem::path &path, std::uint64_t bytes_max, const CancelQuery &cancelled) {
  ByteReader reader(path, bytes_max, cancelled);
  const IdxHeader header = read_header(reader, bytes_max);
  Tensor tensor{header.spec.dtype, header.spec.shape, {}};
  // Grows with what is really there: a packed file's claim is not believed before.
  while (tensor.data.size() < header.data_bytes) {
    const std::size_t at = tensor.data.size();
    const std::uint64_t step =
        std::min<std::uint64_t>(header.data_bytes - at, std::max<std::size_t>(at, 1 << 20));
    tensor.data.resize(at + static_cast<std::size_t>(step));
    const std::size_t got = reader.read(std::span(tensor.data).subspan(at));
    if (got != step) {
      corrupt(reader, "sizes " + shape_text(header.spec.shape) + " need " +
                          std::to_string(header.data_bytes) + " bytes of elements, but only " +
                          std::to_string(at + got) + " follow");
    }
  }
  if (reader.peek() >= 0) {
    corrupt(reader, "more bytes follow the " + std::to_string(header.data_bytes) + " bytes that sizes " +
                        shape_text(header.spec.shape) + " need");
  }
  const std::size_t width = element_bytes(tensor.dtype);
  if (width > 1) {
    for (auto at = tensor.data.begin(); at != tensor.data.end(); at += static_cast<std::ptrdiff_t>(width)) {
      std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
    }
  }
  check_finite(tensor, reader.name());
  return tensor;
}

std::filesystem::path labels_path_of(const DatasetFileOptions &options) {
  if (!options.labels_path.empty()) return options.labels_path;
  std::string name = options.path.filename().string();
  const std::size_t at = name.find(kImagesMark);
  if (at == std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                options.path.string() + ": the labels file cannot be found by name, as \"" +
                    std::string(kImagesMark) + "\" is not in this one's; name the labels file");
  }
  return options.path.parent_path() / name.replace(at, kImagesMark.size(), kLabelsMark);
}

Tensor to_targets(Tensor tensor, const std::string &where) {
  if (is_integral(tensor.dtype)) return to_class_labels(tensor, where);
  if (tensor.dtype == Dtype::f32) return tensor;
  throw Error(ErrorCode::corrupt_data, where + ": labels are " + std::string(dtype_name(tensor.dtype)) +
                                           "; store class labels as integers, or targets as 32-bit floats");
}

}  // namespace

Examples read_idx(const DatasetFileOptions &options, const CancelQuery &cancelled) {
  const std::filesystem::path labels_path = labels_path_of(options);
  Tensor labels = read_tensor(labels_path, options.bytes_max, cancelled);
  if (labels.shape.size() != 1) {
    throw Error(ErrorCode::corrupt_data, labels_path.string() + ": labels have shape " +
                                             shape_text(labels.shape) + "; one number per example is needed");
  }
  Tensor images = read_tensor(options.path, options.bytes_max, cancelled);
  if (images.shape.size() < 2) {
    throw Error(ErrorCode::corrupt_data, options.path.string() +
                                             ": one number per example is what a labels file holds; "
                                             "name the images file, and the labels file apart");
  }
  if (images.shape[0] != labels.shape[0]) {
    throw Error(ErrorCode::corrupt_data, options.path.string() + " holds " + std::to_string(images.shape[0]) +
                                             " examples, but " + labels_path.string() + " holds " +
                                             std::to_string(labels.shape[0]) + " labels");
  }
  return {std::move(images), to_targets(std::move(labels), labels_path.string())};
}

}  // namespace parsyn::data
