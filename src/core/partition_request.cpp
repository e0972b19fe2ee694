#include "core/partition_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "core/counted.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::core {

void check_partition_counts(const PartitionRequest &request) {
  if (request.num_partitions == 0) {
    throw Error(ErrorCode::invalid_argument, "0 partitions were asked for; at least 1 is needed");
  }
  if (request.num_examples < request.num_partitions) {
    throw Error(ErrorCode::invalid_argument,
                counted(request.num_examples, "example") + " cannot fill " +
                    counted(request.num_partitions, "partition") +
                    ": no partition may be empty; use fewer partitions or more examples");
  }
  if (request.num_examples > limits::kDatasetExamplesMax) {
    throw Error(ErrorCode::too_large, std::to_string(request.num_examples) +
                                          " examples are more than dataset_examples_max, " +
                                          std::to_string(limits::kDatasetExamplesMax));
  }
}

void check_partition_labels(const PartitionRequest &request, std::string_view partitioner) {
  if (request.labels.size() == request.num_examples) return;
  const std::string found =
      request.labels.empty() ? "none was" : std::to_string(request.labels.size()) + " were";
  throw Error(ErrorCode::invalid_argument, "the partitioner \"" + std::string(partitioner) +
                                               "\" needs one class label for each of the " +
                                               std::to_string(request.num_examples) + " examples; " + found +
                                               " given (without class labels, use \"even\")");
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::vector<std::uint64_t> all_indices(std::uint64_t count) {
  std::vector<std::uint64_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::uint64_t{0});
  return indices;
}

std::vector<std::uint64_t> indices_by_label(const PartitionRequest &request) {
  std::vector<std::uint64_t> indices = all_indices(request.num_examples);
  std::sort(indices.begin(), indices.end(), [&](std::uint64_t a, std::uint64_t b) {
    return request.labels[a] != request.labels[b] ? request.labels[a] < request.labels[b] : a < b;
  });
  return indices;
}

}  // namespace parsyn::core
