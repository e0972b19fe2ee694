// A store in memory that asks a test before it does anything.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "parsyn/object_store.hpp"

namespace parsyn::test {

class HookedStore final : public ObjectStore {
 public:
  /// `call` is a method's name, `key` what it is called with. The hook may block, or throw: then nothing is
  /// done.
  using Hook = std::function<void(std::string_view call, std::string_view key)>;
  void before(Hook hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }

  std::unique_ptr<ObjectWriter> create(std::string_view key) override {
    ask("create", key);
    return below_->create(key);
  }
  std::unique_ptr<ByteSource> open(std::string_view key) const override {
    ask("open", key);
    return below_->open(key);
  }
  ObjectInfo stat(std::string_view key) const override {
    ask("stat", key);
    return below_->stat(key);
  }
  std::vector<std::string> list(std::string_view prefix) const override {
    ask("list", prefix);
    return below_->list(prefix);
  }
  void remove(std::string_view key) override {
    ask("remove", key);
    below_->remove(key);
  }

 private:
  void ask(std::string_view call, std::string_view key) const {
    Hook hook;
    {
      const std::lock_guard lock(mutex_);
      hook = hook_;
    }
    if (hook) hook(call, key);
  }

  mutable std::mutex mutex_;
  Hook hook_;  // guarded by mutex_
  std::shared_ptr<ObjectStore> below_ = make_memory_store();
};

}  // namespace parsyn::test
