#include <array>
#include <string>

#include "data/byte_reader.hpp"
#include "data/formats.hpp"
#include "parsyn/error.hpp"
#include "system/files.hpp"

namespace parsyn {
namespace data {
namespace {

/// Nothing known: DatasetFormat::detect.
DatasetFormat format_by_name(const std::filesystem::path &path) {
  std::string name = path.filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (name.ends_with(".csv")) return DatasetFormat::csv;
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return DatasetFormat::jsonl;
  if (name.ends_with(".safetensors")) return DatasetFormat::safetensors;
  if (name.ends_with(".idx") || name.find("-idx") != std::string::npos) return DatasetFormat::idx;
  return DatasetFormat::detect;
}

/// A header length below 2^32, and the header's first character.
bool looks_like_safetensors(std::span<const std::byte> head) {
  return head.size() >= 9 && head[4] == std::byte{0} && head[5] == std::byte{0} && head[6] == std::byte{0} &&
         head[7] == std::byte{0} && head[8] == std::byte{'{'};
}

bool looks_like_idx(std::span<const std::byte> head) {
  return head.size() >= 4 && head[0] == std::byte{0} && head[1] == std::byte{0} && head[2] >= std::byte{8} &&
         head[2] <= std::byte{14} && head[3] >= std::byte{1};
}

DatasetFormat format_by_bytes(const DatasetFileOptions &options) {
  {
    // Before anything is unpacked: a safetensors header length may look like gzip's first bytes.
    const system::FileSource source(options.path);
    std::array<std::byte, 9> head{};
    if (source.size() >= head.size()) {
      source.read_at(0, head);
      if (looks_like_safetensors(head)) return DatasetFormat::safetensors;
    }
  }
  ByteReader reader(options.path, options.bytes_max);
  std::array<std::byte, 16> head{};
  const std::span known(head.data(), reader.read(head));
  if (looks_like_idx(known)) return DatasetFormat::idx;
  if (!known.empty() && known[0] == std::byte{'{'}) return DatasetFormat::jsonl;
  throw Error(ErrorCode::invalid_argument,
              options.path.string() +
                  ": neither its name nor its first bytes are of a known format; known are IDX "
                  "(-idx, .idx), CSV (.csv), JSON Lines (.jsonl, .ndjson) and safetensors "
                  "(.safetensors), the first three also with .gz");
}

void check_options(const DatasetFileOptions &options, DatasetFormat format) {
  const std::string where = options.path.string();
  if (format != DatasetFormat::idx && !options.labels_path.empty()) {
    throw Error(ErrorCode::invalid_argument,
                where + ": only IDX files have a labels file apart; leave it out");
  }
  if (format != DatasetFormat::csv && !options.label_column.empty()) {
    throw Error(ErrorCode::invalid_argument, where + ": only CSV files have a label column; leave it out");
  }
  if (format == DatasetFormat::safetensors && options.path.extension() == ".gz") {
    throw Error(ErrorCode::invalid_argument,
                where + ": a safetensors file is read in place; unpack it first (gunzip)");
  }
}

}  // namespace
}  // namespace data

Examples read_examples(const DatasetFileOptions &options, const CancelQuery &cancelled) {
  DatasetFormat format = options.format;
  if (format == DatasetFormat::detect) format = data::format_by_name(options.path);
  if (format == DatasetFormat::detect) format = data::format_by_bytes(options);
  data::check_options(options, format);
  switch (format) {
    case DatasetFormat::idx:
      return data::read_idx(options, cancelled);
    case DatasetFormat::csv:
      return data::read_csv(options, cancelled);
    case DatasetFormat::jsonl:
      return data::read_jsonl(options, cancelled);
    case DatasetFormat::safetensors:
      return data::read_safetensors_examples(options, cancelled);
    case DatasetFormat::detect:
      break;
  }
  throw Error(ErrorCode::invalid_argument,
              "the dataset format " + std::to_string(static_cast<int>(format)) + " is unknown");
}

}  // namespace parsyn
