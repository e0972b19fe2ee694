#include "tensor/header_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "parsyn/error.hpp"
#include "tensor/quoted_name.hpp"

namespace parsyn::tensor {
namespace {

[[noreturn]] void refuse(const std::string &what) {
  throw Error(ErrorCode::corrupt_data, "safetensors header: " + what);
}

[[noreturn]] void refuse_limit(const std::string &what) {
  throw Error(ErrorCode::too_large, "safetensors header: " + what);
}

/// Where in the header the parser is: which values may come next, and what they mean.
enum class Place { start, top, metadata, entry, shape, offsets, end };
enum class Field { none, dtype, shape, offsets };

/// Receives the parser's events. nlohmann keeps the last of duplicate keys and turns large numbers into
/// doubles; here each key and each number is seen as it was written. Throws what it refuses: the parser holds
/// nothing to clean up.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const SafetensorsLimits &limits) : limits_(limits) {}

  HeaderJson take() && { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool binary(binary_t &) override { unexpected("binary data"); }

  // The parser calls this for numbers with a minus sign only.
  bool number_integer(number_integer_t value) override {
    unexpected("the negative number " + std::to_string(value));
  }

  // Also for integers of more than 64 bits.
  bool number_float(number_float_t, const string_t &text) override {
    unexpected("the number " + quoted_name(text) + ", which is not an integer of 64 bits");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (current_.spec.shape.size() == limits_.rank_max) {
        refuse_limit(tensor_text() + " has more dimensions than the limit of " +
                     std::to_string(limits_.rank_max));
      }
      current_.spec.shape.push_back(value);
      return true;
    }
    if (place_ == Place::offsets) {
      if (offsets_seen_ == 2) refuse(tensor_text() + " has more than two data_offsets");
      (offsets_seen_ == 0 ? current_.begin : current_.end) = value;
      ++offsets_seen_;
      return true;
    }
    unexpected("the number " + std::to_string(value));
  }

  bool string(string_t &value) override {
    if (place_ == Place::metadata) {
      header_.metadata[metadata_key_] = value;
      return true;
    }
    if (place_ == Place::entry && field_ == Field::dtype) {
      const std::optional<Dtype> dtype = parse_dtype(value);
      if (!dtype) refuse(tensor_text() + " has the unknown dtype " + quoted_name(value));
      current_.spec.dtype = *dtype;
      return true;
    }
    unexpected("the string " + quoted_name(value));
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = in_metadata_ ? Place::metadata : Place::entry;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t &name) override {
    if (place_ == Place::top) {
      top_key(name);
    } else if (place_ == Place::metadata) {
      metadata_key(name);
    } else {
      entry_key(name);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::top) {
      place_ = Place::end;
    } else if (place_ == Place::metadata) {
      place_ = Place::top;
    } else {
      finish_entry();
      place_ = Place::top;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::entry && field_ == Field::shape) {
      place_ = Place::shape;
    } else if (place_ == Place::entry && field_ == Field::offsets) {
      place_ = Place::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string &, const nlohmann::detail::exception &) override {
    refuse("not valid JSON in UTF-8 at byte " + std::to_string(position));
  }

 private:
  std::string tensor_text() const { return "tensor " + quoted_name(current_.spec.name); }

  [[noreturn]] void unexpected(const std::string &what) const {
    switch (place_) {
      case Place::start:
        refuse(what + " stands where the header's object belongs");
      case Place::metadata:
        refuse("metadata " + quoted_name(metadata_key_) + " has " + what +
               " for a value; only strings are allowed");
      case Place::shape:
        refuse(tensor_text() + " has " + what + " in its shape; only integers from 0 are allowed");
      case Place::offsets:
        refuse(tensor_text() + " has " + what + " in its data_offsets; only integers from 0 are allowed");
      case Place::entry: {
        const char *field = field_ == Field::dtype   ? "dtype"
                            : field_ == Field::shape ? "shape"
                                                     : "data_offsets";
        refuse(tensor_text() + " has " + what + " for " + field);
      }
      case Place::top:
        refuse((in_metadata_ ? std::string(kMetadataKey) : tensor_text()) + " has " + what +
               " where an object belongs");
      case Place::end:
        break;
    }
    refuse(what + " follows the header's object");
  }

  void top_key(const std::string &name) {
    if (name == kMetadataKey) {
      if (metadata_seen_) refuse("the key \"__metadata__\" is there twice");
      metadata_seen_ = true;
      in_metadata_ = true;
      return;
    }
    in_metadata_ = false;
    if (name.empty()) refuse("a tensor has an empty name");
    if (name.size() > limits_.name_bytes_max) {
      refuse_limit("the name of tensor " + quoted_name(name) + " has " + std::to_string(name.size()) +
                   " bytes; the limit is " + std::to_string(limits_.name_bytes_max));
    }
    if (name.find('\0') != std::string::npos)
      refuse("the name of tensor " + quoted_name(name) + " contains a NUL");
    if (header_.tensors.size() == limits_.tensors_max) {
      refuse_limit("more tensors than the limit of " + std::to_string(limits_.tensors_max));
    }
    current_ = {};
    current_.spec.name = name;
    dtype_seen_ = shape_seen_ = data_offsets_seen_ = false;
    offsets_seen_ = 0;
    field_ = Field::none;
  }

  void metadata_key(const std::string &name) {
    if (name.find('\0') != std::string::npos) refuse("metadata key " + quoted_name(name) + " contains a NUL");
    // The value replaces this empty one.
    if (!header_.metadata.emplace(name, "").second)
      refuse("metadata key " + quoted_name(name) + " is there twice");
    metadata_key_ = name;
  }

  void entry_key(const std::string &name) {
    bool *seen = nullptr;
    if (name == "dtype") {
      field_ = Field::dtype;
      seen = &dtype_seen_;
    } else if (name == "shape") {
      field_ = Field::shape;
      seen = &shape_seen_;
    } else if (name == "data_offsets") {
      field_ = Field::offsets;
      seen = &data_offsets_seen_;
    } else {
      refuse(tensor_text() + " has the unknown key " + quoted_name(name));
    }
    if (*seen) refuse(tensor_text() + " has the key " + quoted_name(name) + " twice");
    *seen = true;
  }

  void finish_entry() {
    if (!dtype_seen_) refuse(tensor_text() + " has no dtype");
    if (!shape_seen_) refuse(tensor_text() + " has no shape");
    if (!data_offsets_seen_) refuse(tensor_text() + " has no data_offsets");
    if (offsets_seen_ != 2) {
      refuse(tensor_text() + " has " + std::to_string(offsets_seen_) + " data_offsets instead of two");
    }
    header_.tensors.push_back(std::move(current_));
  }

  const SafetensorsLimits &limits_;
  HeaderJson header_;
  Place place_ = Place::start;
  Field field_ = Field::none;
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  std::string metadata_key_;
  DeclaredTensor current_;
  bool dtype_seen_ = false;
  bool shape_seen_ = false;
  bool data_offsets_seen_ = false;
  unsigned offsets_seen_ = 0;
};

/// The text without its padding. The parser would take a NUL for the end of the text, whatever follows.
std::string_view without_padding(std::string_view text) {
  if (text.empty() || text.front() != '{') refuse("it does not start with \"{\"");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    refuse("a NUL byte at byte " + std::to_string(nul));
  }
  const std::size_t last = text.find_last_not_of(' ');
  if (text[last] != '}') refuse("it does not end with \"}\" and spaces");
  return text.substr(0, last + 1);
}

std::string json_string(const std::string &text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception &) {
    throw Error(ErrorCode::invalid_argument,
                "the name or metadata " + quoted_name(text) + " is not valid UTF-8");
  }
}

}  // namespace

HeaderJson parse_header_json(std::string_view text, const SafetensorsLimits &limits) {
  const std::string_view json = without_padding(text);
  HeaderEvents events(limits);
  nlohmann::json::sax_parse(json.data(), json.data() + json.size(), &events);
  HeaderJson header = std::move(events).take();
  const auto by_name = [](const DeclaredTensor &a, const DeclaredTensor &b) {
    return a.spec.name < b.spec.name;
  };
  std::sort(header.tensors.begin(), header.tensors.end(), by_name);
  const auto twice =
      std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                         [](const auto &a, const auto &b) { return a.spec.name == b.spec.name; });
  if (twice != header.tensors.end()) refuse("tensor " + quoted_name(twice->spec.name) + " is there twice");
  return header;
}

std::string header_json_text(const HeaderJson &header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text += json_string(std::string(kMetadataKey)) + ":{";
    for (const auto &[key, value] : header.metadata) {
      if (text.back() != '{') text += ',';
      text += json_string(key) + ':' + json_string(value);
    }
    text += '}';
  }
  for (const DeclaredTensor &declared : header.tensors) {
    if (text.size() > 1) text += ',';
    text += json_string(declared.spec.name) + ":{\"dtype\":\"" +
            std::string(dtype_name(declared.spec.dtype)) + "\",\"shape\":[";
    for (std::size_t axis = 0; axis < declared.spec.shape.size(); ++axis) {
      if (axis > 0) text += ',';
      text += std::to_string(declared.spec.shape[axis]);
    }
    text +=
        "],\"data_offsets\":[" + std::to_string(declared.begin) + ',' + std::to_string(declared.end) + "]}";
  }
  return text + '}';
}

}  // namespace parsyn::tensor
