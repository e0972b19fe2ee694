// Tensors and updates for tests: built from numbers, written as safetensors files in memory, aggregated, read
// back.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "parsyn/aggregator.hpp"
#include "parsyn/error.hpp"
#include "parsyn/safetensors.hpp"

namespace parsyn::test {

template <typename Element>
Tensor tensor_of(Dtype dtype, std::vector<std::uint64_t> shape, const std::vector<Element> &elements) {
  Tensor made{dtype, std::move(shape), std::vector<std::byte>(elements.size() * sizeof(Element))};
  if (!elements.empty()) std::memcpy(made.data.data(), elements.data(), made.data.size());
  return made;
}

template <typename Element>
std::vector<Element> elements_of(const Tensor &tensor) {
  std::vector<Element> elements(tensor.data.size() / sizeof(Element));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.data.data(), tensor.data.size());
  return elements;
}

inline Tensor f32(std::vector<std::uint64_t> shape, const std::vector<float> &elements) {
  return tensor_of(Dtype::f32, std::move(shape), elements);
}

/// A model of one F32 tensor "w" of 8 equal elements: what faults.md means by `v`.
inline StateDict constant_model(float value) { return {{"w", f32({8}, std::vector<float>(8, value))}}; }

inline std::vector<std::byte> file_of(const StateDict &state,
                                      const std::map<std::string, std::string> &metadata = {}) {
  MemorySink sink;
  write_safetensors(state, sink, metadata);
  return sink.bytes();
}

/// A file with this JSON and these data, whatever they say.
inline std::vector<std::byte> raw_file(std::string_view json, std::size_t data_bytes) {
  std::vector<std::byte> file(8 + json.size() + data_bytes);
  for (unsigned index = 0; index < 8; ++index) {
    file[index] = static_cast<std::byte>(std::uint64_t{json.size()} >> (8 * index) & 0xFF);
  }
  std::memcpy(file.data() + 8, json.data(), json.size());
  return file;
}

/// The code and message of the Error that `act` throws; nothing when it throws none.
template <typename Act>
std::optional<Error> thrown_by(Act act) {
  try {
    act();
  } catch (const Error &error) {
    return error;
  }
  return std::nullopt;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Updates in arrival order; owns their files.
class Updates {
 public:
  Updates &add(std::uint64_t worker_id, std::uint64_t num_examples, const StateDict &state) {
    return add_file(worker_id, num_examples, file_of(state));
  }

  Updates &add_file(std::uint64_t worker_id, std::uint64_t num_examples, std::vector<std::byte> file) {
    const std::vector<std::byte> &kept = files_.emplace_back(std::move(file));
    list_.push_back({worker_id, num_examples, &sources_.emplace_back(kept)});
    return *this;
  }

  const std::vector<Update> &list() const { return list_; }

 private:
  std::deque<std::vector<std::byte>> files_;
  std::deque<MemorySource> sources_;
  std::vector<Update> list_;
};

inline std::vector<std::byte> aggregate_bytes(const std::vector<TensorSpec> &specs,
                                              const std::vector<Update> &updates, Executor &executor,
                                              std::uint64_t block_elements = 4096) {
  MemorySink sink;
  FedAvgAggregator({.block_elements = block_elements}).aggregate(specs, updates, executor, sink);
  return sink.bytes();
}

inline StateDict aggregate(const std::vector<TensorSpec> &specs, const std::vector<Update> &updates) {
  InlineExecutor executor;
  const std::vector<std::byte> file = aggregate_bytes(specs, updates, executor);
  return read_safetensors(MemorySource(file));
}

inline std::string refusal(const std::vector<std::byte> &update, const std::vector<TensorSpec> &expected) {
  InlineExecutor executor;
  return why_update_is_refused(MemorySource(update), expected, executor);
}

/// Each run() has its own threads; piece i runs on thread i modulo their number, the last piece first.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(unsigned threads) : threads_(threads) {}
  unsigned concurrency() const override { return threads_; }

  void run(std::size_t count, const std::function<void(std::size_t)> &piece) override {
    std::mutex mutex;
    std::map<std::size_t, std::exception_ptr> failures;
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads_; ++thread) {
      running.emplace_back([&, thread] {
        for (std::size_t left = count; left > 0; --left) {
          if ((left - 1) % threads_ != thread) continue;
          try {
            piece(left - 1);
          } catch (...) {
            const std::lock_guard lock(mutex);
            failures[left - 1] = std::current_exception();
          }
        }
      });
    }
    for (std::thread &thread : running) thread.join();
    if (!failures.empty()) std::rethrow_exception(failures.begin()->second);
  }

 private:
  unsigned threads_;
};

}  // namespace parsyn::test
