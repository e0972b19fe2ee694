// Internal to this layer: values as JSON, both ways, from one list of their fields.
//
//   void fields(auto &archive, Is<Evaluation> auto &value) {
//     archive("loss", value.loss);
//   }
//   template <> inline constexpr JobState kLast<JobState> = JobState::cancelled;
//
// Writing gives `fields` a const value. For documents that parsyn writes and reads itself: reading takes what
// it wrote, and throws Error(corrupt_data) with the field for anything else. A field that is absent keeps its
// default, so that a newer version may add one.
//
// Thread-safety: one user.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parsyn/error.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {

class FieldWriter;
class FieldReader;

/// An `Of`, const or not.
template <typename T, typename Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

/// Of each enumeration that a document holds: its last value, so that no number beyond it becomes one.
template <typename Enumeration>
inline constexpr std::nullptr_t kLast = nullptr;

template <typename T>
OrderedJson to_value(const T &value);
template <typename T>
void from_value(const nlohmann::json &json, T &value);

namespace archive_detail {
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};
template <typename T>
struct IsDuration : std::false_type {};
template <typename R, typename P>
struct IsDuration<std::chrono::duration<R, P>> : std::true_type {};

[[noreturn]] inline void refuse(const std::string &what) { throw Error(ErrorCode::corrupt_data, what); }
}  // namespace archive_detail

class FieldWriter {
 public:
  template <typename T>
  void operator()(const char *name, const T &value) {
    json_[name] = to_value(value);
  }
  OrderedJson take() { return std::move(json_); }

 private:
  OrderedJson json_ = OrderedJson::object();
};

class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json &json) : json_(json) {
    if (!json.is_object()) archive_detail::refuse("is no object");
  }
  template <typename T>
  void operator()(const char *name, T &value) {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    try {
      from_value(*found, value);
    } catch (const Error &error) {
      archive_detail::refuse(std::string(name) + " " + error.message());
    }
  }

 private:
  const nlohmann::json &json_;
};

template <typename T>
OrderedJson to_value(const T &value) {
  if constexpr (archive_detail::IsOptional<T>::value) {
    return value ? to_value(*value) : OrderedJson(nullptr);
  } else if constexpr (archive_detail::IsVector<T>::value) {
    OrderedJson list = OrderedJson::array();
    for (const auto &element : value) list.push_back(to_value(element));
    return list;
  } else if constexpr (archive_detail::IsMap<T>::value) {
    // Pairs: JSON has no keys but texts.
    OrderedJson list = OrderedJson::array();
    for (const auto &[key, element] : value) {
      list.push_back(OrderedJson::array({to_value(key), to_value(element)}));
    }
    return list;
  } else if constexpr (archive_detail::IsDuration<T>::value) {
    return value.count();
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return number_value(static_cast<double>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string>) {
    return value;
  } else {
    FieldWriter writer;
    fields(writer, value);
    return writer.take();
  }
}

template <typename T>
void from_value(const nlohmann::json &json, T &value) {
  if constexpr (archive_detail::IsOptional<T>::value) {
    if (json.is_null()) {
      value.reset();
    } else {
      from_value(json, value.emplace());
    }
  } else if constexpr (archive_detail::IsVector<T>::value) {
    if (!json.is_array()) archive_detail::refuse("is no list");
    value.clear();
    for (const auto &element : json) from_value(element, value.emplace_back());
  } else if constexpr (archive_detail::IsMap<T>::value) {
    if (!json.is_array()) archive_detail::refuse("is no list of pairs");
    value.clear();
    for (const auto &pair : json) {
      if (!pair.is_array() || pair.size() != 2) archive_detail::refuse("has something that is no pair");
      typename T::key_type key{};
      from_value(pair[0], key);
      from_value(pair[1], value[key]);
    }
  } else if constexpr (archive_detail::IsDuration<T>::value) {
    typename T::rep count{};
    from_value(json, count);
    value = T(count);
  } else if constexpr (std::is_enum_v<T>) {
    static_assert(std::is_same_v<decltype(kLast<T>), const T>, "kLast of this enumeration is missing");
    std::int64_t number = 0;
    from_value(json, number);
    if (number < 0 || number > static_cast<std::int64_t>(kLast<T>))
      archive_detail::refuse("is no value that this parsyn knows");
    value = static_cast<T>(number);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) archive_detail::refuse("is not true or false");
    value = json.template get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto number = number_of(json);
    if (!number) archive_detail::refuse("is no number");
    value = static_cast<T>(*number);
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) archive_detail::refuse("is no whole number");
    if constexpr (std::is_signed_v<T>) {
      if (json.is_number_unsigned() && json.template get<std::uint64_t>() > INT64_MAX)
        archive_detail::refuse("is out of range");
      const auto number = json.template get<std::int64_t>();
      if (!std::in_range<T>(number)) archive_detail::refuse("is out of range");
      value = static_cast<T>(number);
    } else {
      if (!json.is_number_unsigned() || !std::in_range<T>(json.template get<std::uint64_t>()))
        archive_detail::refuse("is out of range");
      value = static_cast<T>(json.template get<std::uint64_t>());
    }
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) archive_detail::refuse("is no text");
    value = json.template get<std::string>();
  } else {
    FieldReader reader(json);
    fields(reader, value);
  }
}

/// Throws Error(corrupt_data) that says what is wrong with the document `what`.
template <typename T>
T from_document(std::string_view what, std::string_view text) {
  T value;
  try {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) archive_detail::refuse("is no JSON");
    from_value(json, value);
  } catch (const Error &error) {
    throw Error(ErrorCode::corrupt_data,
                "the journal's document of " + std::string(what) + ": " + error.message());
  }
  return value;
}

template <typename T>
std::string to_document(const T &value) {
  return write_json(to_value(value));
}

}  // namespace parsyn::wire
