// Text in and out of an object store.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "parsyn/object_store.hpp"

namespace parsyn::test {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline ObjectInfo put(ObjectStore &store, std::string_view key, std::string_view text) {
  const auto writer = store.create(key);
  writer->write(as_bytes(text));
  return writer->commit();
}

inline std::string text_of(const ByteSource &source) {
  std::string text(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

inline std::string get(const ObjectStore &store, std::string_view key) { return text_of(*store.open(key)); }

}  // namespace parsyn::test
