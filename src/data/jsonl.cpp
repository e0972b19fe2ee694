// JSON Lines: one {"x": numbers, "y": number or numbers} a line.
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "data/byte_reader.hpp"
#include "data/elements.hpp"
#include "data/formats.hpp"
#include "data/targets.hpp"
#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"
#include "text/utf8.hpp"

namespace parsyn::data {
namespace {

/// Deeper than this a number array has more dimensions than a tensor: the first dimension counts the
/// examples.
constexpr std::size_t kArrayDepthMax = limits::kTensorRankMax - 1;
static_assert(kArrayDepthMax + 1 < limits::kJsonDepthMax, "so the depth of a line is bounded too");

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The numbers of one key, over all lines. Every line must have the shape of the first.
class NumberArrays {
 public:
  explicit NumberArrays(std::string key) : key_(std::move(key)) {}

  /// Each returns what is wrong, or nothing.
  std::optional<std::string> open_array() {
    if (open_.size() == rank_)
      return key_ + " is nested deeper here than before; all its arrays must have one shape";
    if (open_.size() == kArrayDepthMax)
      return key_ + " is nested deeper than " + std::to_string(kArrayDepthMax);
    count_entry();
    open_.push_back(0);
    return std::nullopt;
  }

  std::optional<std::string> close_array() {
    const std::uint64_t entries = open_.back();
    open_.pop_back();
    const std::size_t depth = open_.size();
    if (entries == 0) return key_ + " has an empty array; every example needs numbers";
    // The innermost array is the first to be closed, and by then all depths have been seen.
    if (shape_.size() < rank_) shape_.resize(rank_, 0);
    if (shape_[depth] == 0) shape_[depth] = entries;
    if (shape_[depth] == entries) return std::nullopt;
    return key_ + " has an array of " + std::to_string(entries) + " entries where others have " +
           std::to_string(shape_[depth]) + "; all examples must have one shape";
  }

  std::optional<std::string> add(double value) {
    if (rank_ == kUnknown) rank_ = open_.size();
    if (open_.size() != rank_)
      return key_ + " has a number beside an array; all its arrays must have one shape";
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) return key_ + " has a number that does not fit 32-bit floats";
    count_entry();
    append_element(elements_, narrow);
    return std::nullopt;
  }

  bool is_closed() const { return open_.empty(); }

  /// F32, [count, ...].
  Tensor finish(std::uint64_t count) {
    std::vector<std::uint64_t> shape{count};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    return {Dtype::f32, std::move(shape), std::move(elements_)};
  }

 private:
  static constexpr std::size_t kUnknown = SIZE_MAX;

  void count_entry() {
    if (!open_.empty()) ++open_.back();
  }

  std::string key_;
  std::size_t rank_ = kUnknown;       // arrays around each number, known from the first number on
  std::vector<std::uint64_t> shape_;  // 0 where no array of this depth has been closed
  std::vector<std::uint64_t> open_;   // entries so far of each array that is open
  std::vector<std::byte> elements_;
};

/// Takes the parser's events for one line after the other. Returning false ends the parse; fault() says why.
class LineHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  void begin_line() {
    where_ = Where::outside;
    has_x_ = has_y_ = false;
    fault_.clear();
  }
  const std::string &fault() const { return fault_; }
  std::uint64_t count() const { return count_; }

  Examples finish() {
    Tensor targets = y_is_array_ ? y_arrays_.finish(count_) : y_numbers_.finish();
    return {x_.finish(count_), std::move(targets)};
  }

  bool null() override { return refuse_value("null"); }
  bool boolean(bool) override { return refuse_value("a boolean"); }
  bool string(string_t &) override { return refuse_value("a string"); }
  bool binary(binary_t &) override { return refuse_value("binary data"); }

  bool number_integer(number_integer_t value) override { return add(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= INT64_MAX) return add(static_cast<double>(value), static_cast<std::int64_t>(value));
    if (where_ == Where::in_y && !y_open_array_)
      return refuse("y is a whole number that does not fit 64 bits with a sign");
    return add(static_cast<double>(value), std::nullopt);
  }
  bool number_float(number_float_t value, const string_t &) override { return add(value, std::nullopt); }

  bool start_object(std::size_t) override {
    if (where_ != Where::outside) return refuse_value("an object");
    where_ = Where::in_object;
    return true;
  }

  bool key(string_t &name) override {
    const bool is_x = name == "x";
    if (!is_x && name != "y") {
      return refuse("the key \"" + text::printable(name, 60) +
                    "\" is unknown; a line has \"x\" and \"y\" only");
    }
    bool &seen = is_x ? has_x_ : has_y_;
    if (std::exchange(seen, true)) return refuse("the key \"" + name + "\" is there twice");
    where_ = is_x ? Where::in_x : Where::in_y;
    return true;
  }

  bool end_object() override {
    if (!has_x_ || !has_y_) return refuse(std::string("the key \"") + (has_x_ ? "y" : "x") + "\" is missing");
    where_ = Where::outside;
    ++count_;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ == Where::in_x) return accept(x_.open_array());
    if (where_ != Where::in_y) return refuse_value("an array");
    if (!y_open_array_ && !set_y_kind(true)) return false;
    y_open_array_ = true;
    return accept(y_arrays_.open_array());
  }

  bool end_array() override {
    if (where_ == Where::in_x) {
      if (!accept(x_.close_array())) return false;
      if (x_.is_closed()) where_ = Where::in_object;
      return true;
    }
    if (!accept(y_arrays_.close_array())) return false;
    if (y_arrays_.is_closed()) {
      y_open_array_ = false;
      where_ = Where::in_object;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::json::exception &error) override {
    constexpr int kOutOfRange = 406;
    const std::string column = "column " + std::to_string(position);
    if (error.id == kOutOfRange) return refuse("a number overflow in " + column + ": no double can hold it");
    return refuse("this is not JSON (RFC 8259) in UTF-8: see " + column);
  }

 private:
  enum class Where { outside, in_object, in_x, in_y };

  bool refuse(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  bool accept(const std::optional<std::string> &fault) { return !fault || refuse(*fault); }

  bool refuse_value(const std::string &kind) {
    switch (where_) {
      case Where::in_x:
        return refuse("x has " + kind + " where a number must stand");
      case Where::in_y:
        return refuse("y has " + kind + " where a number must stand; number the classes 0, 1, 2, ...");
      default:
        return refuse("the line is " + kind + ", not an object with \"x\" and \"y\"");
    }
  }

  bool set_y_kind(bool is_array) {
    if (count_ == 0) y_is_array_ = is_array;
    if (y_is_array_ == is_array) return true;
    return refuse("y is a number in some lines and an array in others; all must be alike");
  }

  bool add(double value, std::optional<std::int64_t> integer) {
    if (where_ == Where::in_x) {
      if (x_.is_closed()) return refuse("x is a number; it must be an array of numbers");
      return accept(x_.add(value));
    }
    if (where_ != Where::in_y) return refuse_value("a number");
    if (y_open_array_) return accept(y_arrays_.add(value));
    if (!set_y_kind(false)) return false;
    where_ = Where::in_object;
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) return refuse("y does not fit 32-bit floats");
    if (integer) {
      y_numbers_.add_integer(*integer);
    } else {
      y_numbers_.add_number(narrow);
    }
    return true;
  }

  Where where_ = Where::outside;
  bool has_x_ = false;
  bool has_y_ = false;
  bool y_is_array_ = false;
  bool y_open_array_ = false;
  std::uint64_t count_ = 0;
  NumberArrays x_{"x"};
  NumberArrays y_arrays_{"y"};
  TargetCollector y_numbers_;
  std::string fault_;
};

/// The next line without its end, in `line`; false at the end of the file.
bool next_line(ByteReader &reader, std::string &line, std::uint64_t number) {
  line.clear();
  if (reader.peek() < 0) return false;
  for (int byte = reader.get(); byte >= 0 && byte != '\n'; byte = reader.get()) {
    if (line.size() == limits::kDatasetLineBytesMax) {
      throw Error(ErrorCode::too_large, reader.name() + ", line " + std::to_string(number) +
                                            ": the line has more than " +
                                            std::to_string(limits::kDatasetLineBytesMax) + " bytes");
    }
    line.push_back(static_cast<char>(byte));
  }
  return true;
}

bool is_blank(const std::string &line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

}  // namespace

Examples read_jsonl(const DatasetFileOptions &options, const CancelQuery &cancelled) {
  ByteReader reader(options.path, options.bytes_max, cancelled);
  const auto fail = [&](std::uint64_t number, const std::string &what) {
    throw Error(ErrorCode::corrupt_data, reader.name() + ", line " + std::to_string(number) + ": " + what);
  };
  LineHandler handler;
  std::string line;
  std::uint64_t blank = 0;
  for (std::uint64_t number = 1; next_line(reader, line, number); ++number) {
    if (is_blank(line)) {
      if (blank == 0) blank = number;
      continue;
    }
    if (blank != 0) fail(blank, "the line is blank, but examples follow; remove it");
    // The parser takes one for the end of the line.
    if (line.find('\0') != std::string::npos) fail(number, "there is a NUL byte, which JSON does not have");
    // The parser passes over one at the start of every text.
    if (number > 1 && line.starts_with(kByteOrderMark))
      fail(number, "there is a byte order mark, which may stand at the start of the file only");
    handler.begin_line();
    if (!nlohmann::json::sax_parse(line, &handler)) fail(number, handler.fault());
  }
  if (handler.count() == 0) fail(1, "the file holds no examples");
  return handler.finish();
}

}  // namespace parsyn::data
