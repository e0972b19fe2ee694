// Public failure reports about signed URLs and large objects, each by its number.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <type_traits>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "parsyn/http.hpp"
#include "parsyn/worker.hpp"
#include "support/catch.hpp"
#include "support/counting_trainer.hpp"
#include "support/errors.hpp"
#include "support/http_objects.hpp"
#include "support/idle_cutting_proxy.hpp"
#include "support/loopback_serving.hpp"
#include "support/put_proxy.hpp"
#include "support/small_job.hpp"
#include "system/files.hpp"
#include "wire/messages.hpp"

using namespace parsyn;
using namespace parsyn::test;
using std::chrono::milliseconds;

namespace {

template <typename T>
inline constexpr bool is_wide = std::is_same_v<T, std::uint64_t>;

// Fault 120: every count of bytes is one of 64 bits, whatever the platform's size_t is.
static_assert(is_wide<decltype(std::declval<const ByteSource &>().size())>);
static_assert(is_wide<decltype(SafetensorsEntry::begin)> && is_wide<decltype(SafetensorsEntry::bytes)>);
static_assert(is_wide<decltype(SafetensorsHeader::file_bytes)> &&
              is_wide<decltype(SafetensorsLayout::file_bytes)>);
static_assert(is_wide<decltype(TensorSpec::shape)::value_type>);
static_assert(is_wide<decltype(ObjectInfo::bytes)> && is_wide<decltype(ObjectRef::bytes)>);
static_assert(is_wide<decltype(UploadSlot::bytes_max)> && is_wide<decltype(Report::bytes)>);
static_assert(is_wide<decltype(RoundRecord::model_bytes)>);
static_assert(is_wide<decltype(http::HttpClientRequest::output_offset)> &&
              is_wide<decltype(http::HttpClientRequest::body_offset)> &&
              is_wide<decltype(http::HttpClientRequest::output_bytes_max)> &&
              is_wide<decltype(http::HttpClientResponse::body_bytes)>);
static_assert(is_wide<decltype(http::BodyPlan::bytes_max)>);
static_assert(sizeof(off_t) == 8);

constexpr std::uint64_t kGiB = 1ULL << 30;

/// A weight file of which only the header and the last elements are written; the rest is a hole.
class SparseWeights {
 public:
  explicit SparseWeights(std::uint64_t bytes) {
    const std::uint64_t first = bytes / 2 / 4;
    const SafetensorsLayout layout =
        layout_safetensors({{"a", Dtype::f32, {first}}, {"b", Dtype::f32, {bytes / 4 - first}}});
    path = folder_.file("weights.safetensors", layout.head);
    std::filesystem::resize_file(path, layout.file_bytes);
    size = layout.file_bytes;
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const ssize_t put = ::pwrite(descriptor, last.data(), 8, static_cast<off_t>(size - 8));
    ::close(descriptor);
    REQUIRE(put == 8);
  }

  const std::array<float, 2> last{1.5F, -2.25F};
  std::filesystem::path path;
  std::uint64_t size = 0;

 private:
  TemporaryFolder folder_;
};

std::array<float, 2> last_elements(const std::filesystem::path &path) {
  const system::FileSource file(path);
  std::array<float, 2> elements{};
  file.read_at(file.size() - 8, std::as_writable_bytes(std::span(elements)));
  return elements;
}

}  // namespace

TEST_CASE("fault 110: a signed URL holds at whatever host and port the coordinator is reached") {
  SmallJob small;
  CoordinatorServer server(*small.coordinator, loopback_serving());
  const IdleCuttingProxy public_name(server.port(), std::chrono::hours(1));
  HttpTransportOptions client;
  client.url = public_name.url();
  client.token = small.coordinator->add_worker({"a", WorkerKind::own}).token;
  ManualWorker worker(make_http_transport(client));
  worker.connect();
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  const Task task = worker.task();
  CHECK(worker.weights(task) == constant(0));

  http::HttpClient plain;
  for (const std::string &base : {server.url(), public_name.url()}) {
    for (const std::string &host : {std::string(), std::string("weights.example.org:8443")}) {
      for (const std::string &type : {std::string(), std::string("application/x-safetensors")}) {
        INFO(base << " " << host << " " << type);
        auto request = put(base + task.upload->url, "bytes");
        if (!host.empty()) request.headers["Host"] = host;
        if (!type.empty()) request.headers["Content-Type"] = type;
        CHECK(plain.perform(request).status == 200);
      }
    }
  }

  SECTION("a signature that does not fit is called that, not a trouble of the network") {
    UploadSlot forged = *task.upload;
    forged.url.back() = forged.url.back() == '0' ? '1' : '0';
    const std::string signature = forged.url.substr(forged.url.find("signature=") + 10);
    const auto refused = plain.perform(put(server.url() + forged.url, "bytes"));
    CHECK(refused.status == 403);
    CHECK(refused.body.find("signature") != std::string::npos);
    CHECK(refused.body.find(signature) == std::string::npos);
    // Who has the worker's token asks for a fresh one.
    const TemporaryFolder folder;
    worker.transport().upload(forged, folder.file("update", "bytes"), {});
  }
  CHECK(worker.train(task, constant(1)).accepted);
  CHECK(small.ended(job).state == JobState::completed);
}

TEST_CASE("fault 113: an update that is refused for now is sent again whole, and when the peer wants it") {
  constexpr std::uint64_t kUpdateBytes = 8 << 20;
  SmallJob small(constant(0, kUpdateBytes / sizeof(float)));
  CoordinatorServer server(*small.coordinator, loopback_serving());
  PutProxy slow_down(server.port());
  slow_down.refuse(2, std::chrono::seconds(1));
  HttpTransportOptions client;
  client.url = slow_down.url();
  client.token = small.coordinator->add_worker({"a", WorkerKind::own}).token;
  WorkerOptions options;
  options.transport = make_http_transport(client);
  options.trainer_factory = std::make_shared<CountingFactory>();
  const Worker worker(std::move(options));
  const Id job = small.coordinator->submit(small.config(1, 1)).id;
  CHECK(small.ended(job).state == JobState::completed);
  CHECK(small.global(job) == constant(1, kUpdateBytes / sizeof(float)));

  auto puts = slow_down.puts();
  std::erase_if(puts, [](const PutProxy::Put &put) { return put.body_bytes == 0; });  // "how much is there?"
  REQUIRE(puts.size() == 3);
  for (const PutProxy::Put &put : puts) CHECK(put.body_bytes == puts[0].body_bytes);
  CHECK(puts[0].body_bytes > kUpdateBytes);
  for (std::size_t i = 1; i < puts.size(); ++i)
    CHECK(puts[i].begun - puts[i - 1].begun >= milliseconds(1'000) + limits::kBackoffFirst / 2);
}

TEST_CASE("fault 120: weight files of more than 2 and 4 GiB have their tensors where they are") {
  const SparseWeights weights(GENERATE(22, 43) * kGiB / 10);
  const system::FileSource file(weights.path);
  const SafetensorsHeader header = read_safetensors_header(file);
  CHECK(header.file_bytes == weights.size);
  REQUIRE(header.find("b") != nullptr);
  CHECK(header.find("b")->begin + header.find("b")->bytes == weights.size);
  CHECK(header.find("b")->begin == header.find("a")->begin + header.find("a")->bytes);
  CHECK(last_elements(weights.path) == weights.last);
}

TEST_CASE("fault 120: a download goes on behind 2 and 4 GiB, and an upload's length is not cut") {
  const SparseWeights weights(GENERATE(22, 43) * kGiB / 10);
  const auto source = std::make_shared<system::FileSource>(weights.path);
  http::HttpServer server(
      {},
      {route("GET", "/weights",
             [&](const http::HttpRequest &, const http::Responder &respond) {
               http::HttpResponse response;
               response.source = source;
               response.etag = "v1";
               respond.send(std::move(response));
             }),
       {"PUT", "/small",
        [](http::HttpRequest &) {
          http::BodyPlan plan;
          plan.bytes_max = 1 << 20;
          return plan;
        },
        [](http::HttpRequest, std::shared_ptr<ByteSink>, http::Responder respond) { respond.send({}); }}});
  const std::uint64_t there = weights.size - (1 << 20);
  const TemporaryFolder folder;
  http::HttpClient client;
  auto request = get(server.url() + "/weights");
  request.output_file = folder.file("part", "");
  std::filesystem::resize_file(*request.output_file, there);
  request.output_offset = there;
  request.headers["If-Range"] = "\"v1\"";
  const auto response = client.perform(request);
  CHECK(response.status == 206);
  CHECK(response.body_bytes == 1 << 20);
  CHECK(std::filesystem::file_size(*request.output_file) == weights.size);
  CHECK(last_elements(*request.output_file) == weights.last);

  // Cut to 32 bits, these lengths would pass.
  for (const std::uint64_t length : {4 * kGiB + 10, 8 * kGiB}) {
    RawConnection line(server.port());
    line.send("PUT /small HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n");
    CHECK(line.receive().starts_with("HTTP/1.1 413 "));
  }
}

TEST_CASE("fault 120: messages carry sizes beyond 32 bits") {
  Report report;
  report.lease = report.task_id = report.job_id = report.round = 1;
  report.key = "jobs/1/update";
  report.sha256 = std::string(64, '0');
  report.bytes = 43 * kGiB / 10;
  report.num_examples = 1;
  CHECK(wire::decode_report(wire::encode(report)).bytes == report.bytes);
}
