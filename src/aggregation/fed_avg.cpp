// FedAvgAggregator: which updates count, where their elements lie, and the loop over all blocks.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/block_reducer.hpp"
#include "aggregation/finite.hpp"
#include "aggregation/schema.hpp"
#include "parsyn/aggregator.hpp"
#include "parsyn/error.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn {
namespace {

/// Up to here a double holds every integer.
constexpr std::uint64_t kTotalWeightMax = std::uint64_t{1} << 53;

/// An update that adds to the result, and where it keeps each tensor, in the order of the layout.
struct Contribution {
  Update update;
  std::vector<std::uint64_t> begins;
};

struct Block {
  std::size_t tensor;  ///< Position in the layout.
  std::uint64_t first;
  std::uint64_t elements;
};

[[noreturn]] void refuse_call(const std::string &what) {
  throw Error(ErrorCode::invalid_argument, "aggregation: " + what);
}

std::vector<Contribution> contributions_of(std::vector<Update> updates) {
  if (updates.empty()) refuse_call("no updates");
  std::sort(updates.begin(), updates.end(),
            [](const Update &a, const Update &b) { return a.worker_id < b.worker_id; });
  std::vector<Contribution> contributions;
  for (std::size_t index = 0; index < updates.size(); ++index) {
    const Update &update = updates[index];
    const std::string worker = "worker " + std::to_string(update.worker_id);
    if (index > 0 && updates[index - 1].worker_id == update.worker_id)
      refuse_call(worker + " has two updates");
    if (update.source == nullptr) refuse_call("the update of " + worker + " has no source");
    if (update.num_examples > 0) contributions.push_back({update, {}});
  }
  if (contributions.empty()) {
    refuse_call("total weight 0: none of the " + std::to_string(updates.size()) +
                " updates has any examples");
  }
  return contributions;
}

std::uint64_t total_weight(const std::vector<Contribution> &contributions) {
  std::uint64_t total = 0;
  for (const Contribution &contribution : contributions) {
    if (contribution.update.num_examples > kTotalWeightMax - total) {
      refuse_call("the updates have more than 2^53 examples together");
    }
    total += contribution.update.num_examples;
  }
  return total;
}

void locate_tensors(Contribution &contribution, const std::vector<TensorSpec> &specs,
                    const SafetensorsLayout &layout) {
  const std::string worker = "update of worker " + std::to_string(contribution.update.worker_id) + ": ";
  SafetensorsHeader header;
  try {
    header = read_safetensors_header(*contribution.update.source);
  } catch (const Error &error) {
    // Of the others the update knows nothing: its storage is not there now.
    if (error.code() != ErrorCode::corrupt_data && error.code() != ErrorCode::too_large) throw;
    throw Error(ErrorCode::corrupt_data, worker + error.message());
  }
  if (const std::string reason = aggregation::why_schema_differs(header, specs); !reason.empty()) {
    throw Error(ErrorCode::corrupt_data, worker + reason);
  }
  contribution.begins.reserve(layout.tensors.size());
  for (const SafetensorsEntry &entry : layout.tensors) {
    contribution.begins.push_back(header.find(entry.spec.name)->begin);
  }
}

std::vector<Block> blocks_of(const SafetensorsLayout &layout, std::uint64_t block_elements) {
  std::vector<Block> blocks;
  for (std::size_t tensor = 0; tensor < layout.tensors.size(); ++tensor) {
    const std::uint64_t elements = layout.tensors[tensor].spec.element_count();
    for (std::uint64_t first = 0; first < elements;) {
      blocks.push_back({tensor, first, std::min(block_elements, elements - first)});
      first += blocks.back().elements;
    }
  }
  return blocks;
}

/// Updates are read one after another into one buffer, so memory does not grow with their number.
std::span<const std::byte> reduce_block(const Block &block, const TensorSpec &spec,
                                        const std::vector<Contribution> &contributions, std::uint64_t total,
                                        aggregation::BlockReducer &reducer) {
  const std::uint64_t element_bytes = dtype_bits(spec.dtype) / 8;
  reducer.begin(spec.dtype, block.elements);
  for (const auto &[update, begins] : contributions) {
    update.source->read_at(begins[block.tensor] + block.first * element_bytes, reducer.input());
    reducer.add(update.num_examples);
  }
  const std::span<const std::byte> result = reducer.finish(total);
  if (const auto index = aggregation::first_not_finite(spec.dtype, result)) {
    throw Error(ErrorCode::corrupt_data,
                "aggregation: the result of tensor " + tensor::quoted_name(spec.name) +
                    " is not finite at index " + std::to_string(block.first + *index) +
                    ": an update is not finite there, or the sum is too large for a double");
  }
  return result;
}

}  // namespace

void FedAvgAggregator::aggregate(const std::vector<TensorSpec> &specs, std::vector<Update> updates,
                                 Executor &executor, ByteSink &out,
                                 const std::map<std::string, std::string> &metadata) const {
  if (options_.block_elements == 0) refuse_call("block_elements is 0");
  for (const TensorSpec &spec : specs) {
    if (!is_averaged(spec.dtype) && !is_integral(spec.dtype)) {
      refuse_call("tensor " + tensor::quoted_name(spec.name) + " is " + std::string(dtype_name(spec.dtype)) +
                  ", which has no rule for aggregation");
    }
  }
  std::vector<Contribution> contributions = contributions_of(std::move(updates));
  const std::uint64_t total = total_weight(contributions);
  const SafetensorsLayout layout = layout_safetensors(specs, metadata);
  executor.run(contributions.size(),
               [&](std::size_t index) { locate_tensors(contributions[index], specs, layout); });

  out.write(std::as_bytes(std::span(layout.head)));
  const std::vector<Block> blocks = blocks_of(layout, options_.block_elements);
  if (blocks.empty()) return;
  const std::size_t wave_blocks = std::min<std::size_t>(std::max(1u, executor.concurrency()), blocks.size());
  const auto longest = std::max_element(
      blocks.begin(), blocks.end(), [](const Block &a, const Block &b) { return a.elements < b.elements; });
  std::vector<aggregation::BlockReducer> reducers;
  for (std::size_t slot = 0; slot < wave_blocks; ++slot) reducers.emplace_back(longest->elements);
  std::vector<std::span<const std::byte>> results(wave_blocks);
  // In waves: blocks are reduced side by side, and written one after another in the order of the file.
  for (std::size_t first = 0; first < blocks.size(); first += wave_blocks) {
    const std::size_t count = std::min(wave_blocks, blocks.size() - first);
    executor.run(count, [&](std::size_t slot) {
      const Block &block = blocks[first + slot];
      results[slot] =
          reduce_block(block, layout.tensors[block.tensor].spec, contributions, total, reducers[slot]);
    });
    for (std::size_t slot = 0; slot < count; ++slot) out.write(results[slot]);
  }
}

}  // namespace parsyn
