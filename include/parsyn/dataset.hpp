// Examples, as a trainer sees them and as files hold them.
//
// Whatever the file format, a dataset becomes two tensors: `x`, the inputs, and `y`, the labels or targets,
// both with one entry per example along their first dimension. Class labels are I64 of shape [N]; regression
// targets are F32. Inputs of dtype U8 (images) are scaled to [0, 1] by trainers: x / 255.
//
// Formats (docs/datasets.md): IDX, plain or gzipped (images file; its labels file is found by name or given);
// CSV with a header line and a label column; JSON Lines with one {"x": ..., "y": ...} a line, x a number
// array of any rank; safetensors with tensors x and y.
//
// Thread-safety: values and free functions without state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "parsyn/bytes.hpp"
#include "parsyn/limits.hpp"
#include "parsyn/state_dict.hpp"

namespace parsyn {

struct Examples {
  Tensor x = {};
  Tensor y = {};

  std::uint64_t count() const { return x.shape.empty() ? 0 : x.shape[0]; }
  /// The shape of one example's input: x.shape without its first dimension.
  std::vector<std::uint64_t> input_shape() const;
  /// x and y by name: what a partition's file holds.
  StateDict to_state_dict() const;
  /// Throws Error(corrupt_data) when x or y is missing, another tensor is there, or their first dimensions
  /// differ.
  static Examples from_state_dict(StateDict state);
  /// These examples, in this order. Throws Error(invalid_argument) for an index that is not there.
  Examples select(std::span<const std::uint64_t> indices) const;
};

enum class DatasetFormat { detect, idx, csv, jsonl, safetensors };

struct DatasetFileOptions {
  std::filesystem::path path = {};
  /// IDX only; empty: "images-idx3" in the name becomes "labels-idx1".
  std::filesystem::path labels_path = {};
  DatasetFormat format = DatasetFormat::detect;  ///< By the file's name and first bytes.
  std::string label_column = {};  ///< CSV only; empty: a column named "label", else the last one.
  std::uint64_t bytes_max = limits::kDatasetBytesMax;  ///< Of one file, after unpacking.
};

/// Reads a file. Throws Error: not_found, corrupt_data (with file, line or offset), invalid_argument,
/// too_large, io, cancelled.
Examples read_examples(const DatasetFileOptions &options, const CancelQuery &cancelled = {});

/// What can be said of a dataset without its elements; kept in the registry.
struct DatasetShape {
  std::uint64_t num_examples = 0;
  Dtype x_dtype = Dtype::f32;
  std::vector<std::uint64_t> input_shape = {};
  Dtype y_dtype = Dtype::i64;
  std::vector<std::uint64_t> target_shape = {};  ///< Empty for class labels.
  std::int64_t label_min = 0;                    ///< Class labels only.
  std::int64_t label_max = 0;

  bool operator==(const DatasetShape &) const = default;
};
DatasetShape shape_of(const Examples &examples);

/// One label per example, as partitioners want them. Throws Error(invalid_argument) for targets that are not
/// classes.
std::vector<std::int64_t> class_labels(const Examples &examples);

struct SplitExamples {
  Examples training = {};
  Examples validation = {};
};

/// Takes out a part for validation, as validation_indices() of partitioner.hpp chooses it: a seeded draw of
/// count x fraction examples, at least one and not all. Both parts keep the file's order.
/// Throws Error(invalid_argument) for a fraction outside (0, 1) or fewer than two examples.
SplitExamples split_validation(const Examples &examples, double fraction, std::uint64_t seed);

}  // namespace parsyn
