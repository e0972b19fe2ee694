#include <string>
#include <utility>

#include "parsyn/dataset.hpp"
#include "support/catch.hpp"
#include "unit/data/files.hpp"

using namespace parsyn;
using namespace parsyn::test;

namespace {

/// `elements` as they stand in the file, big-endian.
std::string idx(unsigned code, const std::vector<std::uint32_t> &sizes, const std::string &elements) {
  std::string bytes{'\0', '\0', static_cast<char>(code), static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(size >> shift));
  }
  return bytes + elements;
}

const std::string kImages = idx(8, {2, 1, 3}, {1, 2, 3, 4, 5, static_cast<char>(255)});
const std::string kLabels = idx(8, {2}, {7, static_cast<char>(200)});

Examples read_pair(const std::string &images, const std::string &labels) {
  const TemporaryFolder folder;
  folder.file("t-labels-idx1-ubyte", labels);
  DatasetFileOptions options;
  options.path = folder.file("t-images-idx3-ubyte", images);
  return read_examples(options);
}

Error pair_refusal(const std::string &images, const std::string &labels) {
  return error_of([&] { read_pair(images, labels); });
}

}  // namespace

TEST_CASE("an IDX images file and its labels file become U8 inputs and class labels") {
  const Examples examples = read_pair(kImages, kLabels);
  CHECK(examples.x.dtype == Dtype::u8);
  CHECK(examples.x.shape == Shape{2, 1, 3});
  CHECK(examples.x.data.back() == std::byte{255});
  CHECK(i64_elements(examples.y) == Labels{7, 200});
}

TEST_CASE("a gzipped IDX file is known by its first bytes, whatever its name") {
  const Examples examples = read_pair(gzipped(kImages), gzipped(kLabels));
  CHECK(examples.x == read_pair(kImages, kLabels).x);
  CHECK(examples.y == read_pair(kImages, kLabels).y);
}

TEST_CASE("a gzip file of several members is read to its end") {
  const Examples examples =
      read_pair(gzipped(kImages.substr(0, 10)) + gzipped("") + gzipped(kImages.substr(10)), kLabels);
  CHECK(examples.x == read_pair(kImages, kLabels).x);
}

TEST_CASE("the labels file may be named instead of found") {
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.path = folder.file("pictures.idx", kImages);
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::invalid_argument);
  options.labels_path = folder.file("classes", kLabels);
  CHECK(i64_elements(read_examples(options).y) == Labels{7, 200});
  options.labels_path = folder.path() / "absent";
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::not_found);
}

TEST_CASE("every IDX dtype is read with its own order of bytes") {
  using namespace std::string_literals;
  CHECK(read_pair(idx(0x09, {1, 1}, "\xFE"s), idx(0x09, {1}, "\xFF"s)).x ==
        Tensor{Dtype::i8, {1, 1}, {std::byte{0xFE}}});
  CHECK(i64_elements(read_pair(idx(0x09, {1, 1}, "\x01"s), idx(0x09, {1}, "\xFF"s)).y) == Labels{-1});
  CHECK(read_pair(idx(0x0B, {1, 1}, "\x01\x02"s), idx(8, {1}, "\1"s)).x ==
        Tensor{Dtype::i16, {1, 1}, {std::byte{2}, std::byte{1}}});
  CHECK(i64_elements(read_pair(kImages, idx(0x0C, {2}, "\xFF\xFF\xFF\xFE\x00\x01\x00\x00"s)).y) ==
        Labels{-2, 65536});
  CHECK(
      f32_elements(read_pair(idx(0x0D, {1, 2}, "\x3F\x80\x00\x00\xC0\x00\x00\x00"s), idx(8, {1}, "\1"s)).x) ==
      Floats{1, -2});
  CHECK(f32_elements(read_pair(idx(8, {1, 1}, "\1"s), idx(0x0D, {1}, "\x3F\x80\x00\x00"s)).y) == Floats{1});
  const Tensor wide = read_pair(idx(0x0E, {1, 1}, "\x3F\xF0\0\0\0\0\0\x05"s), idx(8, {1}, "\1"s)).x;
  CHECK(wide.dtype == Dtype::f64);
  CHECK(wide.data.front() == std::byte{5});
  CHECK(wide.data.back() == std::byte{0x3F});
}

TEST_CASE("every mismatch of an IDX file is refused by name") {
  using namespace std::string_literals;
  const auto says = [](const Error &error, const char *text) {
    INFO(error.message());
    CHECK(error.code() == ErrorCode::corrupt_data);
    CHECK(mentions(error, text));
  };
  says(pair_refusal("\x01"s + kImages.substr(1), kLabels), "not an IDX file");
  says(pair_refusal(idx(0x0A, {2, 1, 3}, "abcdef"), kLabels), "dtype code 10");
  says(pair_refusal(idx(8, {}, "abcdef"), kLabels), "rank is 0");
  says(pair_refusal(idx(8, {0, 1}, ""), kLabels), "no examples");
  says(pair_refusal(kImages.substr(0, 3), kLabels), "magic number");
  says(pair_refusal(kImages.substr(0, 9), kLabels), "sizes");
  says(pair_refusal(kImages.substr(0, kImages.size() - 1), kLabels), "need 22 bytes, but the file has 21");
  says(pair_refusal(kImages + "x", kLabels), "the file has 23");
  says(pair_refusal(gzipped(kImages.substr(0, kImages.size() - 1)), kLabels), "only 5 follow");
  says(pair_refusal(gzipped(kImages + "x"), kLabels), "more bytes follow");
  says(pair_refusal(kImages, idx(8, {3}, "abc")), "holds 2 examples");
  says(pair_refusal(kImages, kImages), "one number per example is needed");
  says(pair_refusal(kLabels, kLabels), "labels file holds");
  says(pair_refusal(idx(0x0D, {2, 1}, "\x3F\x80\0\0\x7F\xC0\0\0"s), kLabels), "element 0 of example 1");
  says(pair_refusal(idx(0x0E, {2, 1}, "\x7F\xF0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s), kLabels), "NaN or infinite");
}

TEST_CASE("a broken or cut gzip stream is refused") {
  const std::string packed = gzipped(kImages);
  CHECK(mentions(pair_refusal(packed.substr(0, packed.size() - 5), kLabels), "cut off"));
  std::string broken = packed;
  broken[broken.size() - 6] ^= 1;
  CHECK(mentions(pair_refusal(broken, kLabels), "gzip stream is broken"));
  CHECK(mentions(pair_refusal(packed + "trailing", kLabels), "gzip stream is broken"));
}

TEST_CASE("sizes that a file only claims allocate nothing") {
  const std::string huge(4, '\xFF');
  const std::string claim = std::string{'\0', '\0', '\x0E', '\3'} + huge + huge + huge;
  CHECK(pair_refusal(claim, kLabels).code() == ErrorCode::too_large);
  CHECK(pair_refusal(gzipped(claim), kLabels).code() == ErrorCode::too_large);
  // 60 GB, within the limit, but not there.
  const Error absent = pair_refusal(gzipped(idx(8, {60'000, 1'000, 1'000}, "abc")), kLabels);
  CHECK(absent.code() == ErrorCode::corrupt_data);
  CHECK(mentions(absent, "only 3 follow"));
}

TEST_CASE("a file that unpacks to more than the limit is refused while it unpacks") {
  const TemporaryFolder folder;
  DatasetFileOptions options;
  options.bytes_max = 1 << 20;
  options.path =
      folder.file("bomb.csv.gz", gzipped("a,label\n1," + std::string(std::size_t{64} << 20, '0') + "\n"));
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::too_large);
  options.path = folder.file("plain.csv", "a,label\n1," + std::string(std::size_t{2} << 20, '0') + "\n");
  CHECK(error_of([&] { read_examples(options); }).code() == ErrorCode::too_large);
}

TEST_CASE("Fashion-MNIST as Debian packages it is read whole") {
  for (const auto &[name, count] : {std::pair("train", 60'000), std::pair("t10k", 10'000)}) {
    DatasetFileOptions options;
    options.path = std::string("/usr/share/datasets/fashion-mnist/") + name + "-images-idx3-ubyte.gz";
    const Examples examples = read_examples(options);
    CHECK(shape_of(examples) ==
          DatasetShape{static_cast<std::uint64_t>(count), Dtype::u8, {28, 28}, Dtype::i64, {}, 0, 9});
    std::vector<int> per_class(10);
    for (const std::int64_t label : class_labels(examples)) ++per_class[static_cast<std::size_t>(label)];
    CHECK(per_class == std::vector<int>(10, count / 10));
  }
}
