#include "sim/network.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "http/answer_receiver.hpp"
#include "http/client_url.hpp"
#include "sim/connection.hpp"
#include "system/files.hpp"

namespace parsyn::sim {
namespace {

constexpr Time kReportInterval{100};
constexpr Time kLookAgain{500};

struct Address {
  std::string host;
  std::string target;
};

Address address_of(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  const std::size_t end = std::min(url.find_first_of("/?#"), url.size());
  const std::string_view authority = url.substr(0, end);
  std::string target(url.substr(end, url.find('#') - end));
  if (target.empty() || target.front() != '/') target.insert(0, "/");
  return {std::string(authority.substr(0, authority.find(':'))), std::move(target)};
}

std::string body_of(const http::HttpClientRequest &request) {
  if (!request.body_file) return request.body;
  const system::FileSource file(*request.body_file);
  if (file.size() < request.body_offset)
    throw Error(ErrorCode::invalid_argument, "the body's file is shorter than its offset");
  std::string body(static_cast<std::size_t>(file.size() - request.body_offset), '\0');
  file.read_at(request.body_offset, std::as_writable_bytes(std::span(body.data(), body.size())));
  return body;
}

}  // namespace

struct Network::State {
  explicit State(World &world) : links(std::make_shared<Links>(world)) {}

  const std::shared_ptr<Links> links;
  std::map<std::string, std::shared_ptr<Listener>> listeners;

  std::shared_ptr<Listener> find(const std::string &host) const {
    const auto found = listeners.find(host);
    return found == listeners.end() || !found->second->open ? nullptr : found->second;
  }
};

namespace {

class SimulatedClient final : public http::Requester {
 public:
  using Find = std::function<std::shared_ptr<Listener>(const std::string &host)>;

  SimulatedClient(std::shared_ptr<Links> links, Find find, Machine &machine, std::string from,
                  const http::HttpClientOptions &options)
      : links_(std::move(links)),
        find_(std::move(find)),
        machine_(machine),
        from_(std::move(from)),
        options_(options),
        shared_(std::make_shared<Shared>()) {
    shared_->changed = machine.make_signal();
    machine.at_kill([weak = std::weak_ptr(shared_)] {
      const auto shared = weak.lock();
      if (!shared) return;
      for (const auto &connection : std::exchange(shared->open, {})) connection->leave(false);
    });
  }
  ~SimulatedClient() override {
    interrupt();
    std::unique_lock lock(shared_->mutex);
    shared_->changed->wait(lock, [this] { return shared_->open.empty(); });
  }

  http::HttpClientResponse perform(const http::HttpClientRequest &request) override;

  void interrupt() override {
    shared_->interrupted = true;
    shared_->changed->notify_all();
  }

 private:
  /// What outlives the client until its connections have ended.
  struct Shared {
    std::mutex mutex;
    std::unique_ptr<system::Signal> changed;
    bool interrupted = false;
    Connections open;
  };
  class Visit;

  std::function<void()> notifier() const {
    return [weak = std::weak_ptr(shared_)] {
      if (const auto shared = weak.lock()) shared->changed->notify_all();
    };
  }
  void connect(const std::string &host, const http::AnswerReceiver &answer) const;
  std::shared_ptr<Connection> open(const std::string &host, Outgoing outgoing);

  const std::shared_ptr<Links> links_;
  const Find find_;
  Machine &machine_;
  const std::string from_;
  const http::HttpClientOptions options_;
  const std::shared_ptr<Shared> shared_;
};

/// One request, as long as its caller waits for it.
class SimulatedClient::Visit {
 public:
  Visit(SimulatedClient &client, const http::HttpClientRequest &request, std::uint64_t body_bytes,
        http::AnswerReceiver &answer, std::shared_ptr<Connection> connection)
      : client_(client),
        request_(request),
        body_bytes_(body_bytes),
        answer_(answer),
        connection_(std::move(connection)),
        last_progress_(client.machine_.now()) {
    client_.shared_->open.insert(connection_);
  }
  ~Visit() {
    connection_->leave(answered_);
    client_.shared_->open.erase(connection_);
    client_.shared_->changed->notify_all();
  }
  Visit(const Visit &) = delete;
  Visit &operator=(const Visit &) = delete;

  http::HttpClientResponse run() {
    for (;;) {
      while (!connection_->answer.empty()) {
        last_progress_ = client_.machine_.now();
        take(std::exchange(connection_->answer.front(), {}));
        connection_->answer.pop_front();
        if (answered_ || answer_.ended_by_caller()) return answer_.finish();
      }
      if (connection_->reset) answer_.fail(ErrorCode::unavailable, "the connection was reset by the peer");
      if (client_.shared_->interrupted) answer_.fail(ErrorCode::cancelled, "the client was interrupted");
      check_progress();
      report();
      wait();
    }
  }

 private:
  void take(const AnswerPiece &piece) {
    std::string_view head = piece.head;
    while (!head.empty()) {
      const std::size_t end = std::min(head.find('\n'), head.size() - 1) + 1;
      answer_.take_header(head.substr(0, end));
      head.remove_prefix(end);
    }
    if (!piece.body.empty()) answer_.take_body(piece.body);
    answered_ = piece.end;
  }

  Time idle_limit() const {
    const Time usual = client_.options_.idle_timeout;
    if (!request_.idle_timeout) return usual;
    const bool peer_thinks = !answer_.begun() && connection_->request_delivered;
    return peer_thinks || request_.on_body ? *request_.idle_timeout : std::min(usual, *request_.idle_timeout);
  }

  void check_progress() {
    const Time now = client_.machine_.now();
    if (connection_->bytes_delivered != delivered_ || connection_->request_delivered != all_delivered_) {
      delivered_ = connection_->bytes_delivered;
      all_delivered_ = connection_->request_delivered;
      last_progress_ = now;
    }
    if (now - last_progress_ < idle_limit()) return;
    answer_.fail(ErrorCode::timeout,
                 "no byte came or went for " + std::to_string(idle_limit().count()) + " ms");
  }

  void report() {
    const Time now = client_.machine_.now();
    if (!request_.progress || (reported_ && now - *reported_ < kReportInterval)) return;
    reported_ = now;
    if (!request_.progress(std::min(delivered_, body_bytes_), answer_.body_bytes()))
      answer_.fail(ErrorCode::cancelled, "the caller ended it");
  }

  void wait() {
    Time until = last_progress_ + idle_limit();
    if (request_.progress) until = std::min(until, *reported_ + kReportInterval);
    std::unique_lock lock(client_.shared_->mutex);
    client_.machine_.wait_until(*client_.shared_->changed, lock, until, [this] {
      return !connection_->answer.empty() || connection_->reset || client_.shared_->interrupted ||
             connection_->bytes_delivered != delivered_ || connection_->request_delivered != all_delivered_;
    });
  }

  SimulatedClient &client_;
  const http::HttpClientRequest &request_;
  const std::uint64_t body_bytes_;
  http::AnswerReceiver &answer_;
  const std::shared_ptr<Connection> connection_;
  bool answered_ = false;
  Time last_progress_;
  std::uint64_t delivered_ = 0;
  bool all_delivered_ = false;
  std::optional<Time> reported_;
};

http::HttpClientResponse SimulatedClient::perform(const http::HttpClientRequest &request) {
  http::check_url(request.url);
  http::AnswerReceiver answer(request);
  if (shared_->interrupted) answer.fail(ErrorCode::cancelled, "the client was interrupted");
  const Address address = address_of(request.url);
  Outgoing outgoing{request.method, address.target, request.headers, body_of(request)};
  outgoing.headers.emplace("Host", address.host);
  if (request.output_file && request.output_offset > 0)
    outgoing.headers.emplace("Range", "bytes=" + std::to_string(request.output_offset) + "-");
  const std::uint64_t body_bytes = outgoing.body.size();
  connect(address.host, answer);
  Visit visit(*this, request, body_bytes, answer, open(address.host, std::move(outgoing)));
  try {
    http::HttpClientResponse response = visit.run();
    links_->world.trace(from_ + " has " + std::to_string(response.status));
    return response;
  } catch (const Error &error) {
    links_->world.trace(from_ + " has " + std::string(error_code_name(error.code())));
    throw;
  }
}

void SimulatedClient::connect(const std::string &host, const http::AnswerReceiver &answer) const {
  World &world = links_->world;
  // Half of the requests go on a connection that is open since before the partition.
  if (world.chance(500)) return;
  const Time until = machine_.now() + options_.connect_timeout;
  while (links_->apart(from_, host) || links_->apart(host, from_)) {
    if (machine_.now() >= until) {
      world.trace(from_ + " cannot connect to " + host);
      answer.fail(ErrorCode::timeout,
                  "no connection within " + std::to_string(options_.connect_timeout.count()) + " ms");
    }
    std::unique_lock lock(shared_->mutex);
    machine_.wait_until(*shared_->changed, lock, std::min(until, machine_.now() + kLookAgain),
                        [this] { return shared_->interrupted; });
    if (shared_->interrupted) answer.fail(ErrorCode::cancelled, "the client was interrupted");
  }
}

std::shared_ptr<Connection> SimulatedClient::open(const std::string &host, Outgoing outgoing) {
  World &world = links_->world;
  const Network::Faults &faults = links_->of(from_, host);
  auto connection = std::make_shared<Connection>(links_, from_, host, notifier());
  const auto find = [find = find_, host] { return find(host); };
  bool forward = true;
  bool again = world.chance(faults.duplicate);
  if (world.chance(faults.gateway)) {
    forward = false;
    again = world.chance(500);
    static constexpr std::array kAnswers = {"502 Bad Gateway", "503 Service Unavailable",
                                            "504 Gateway Timeout"};
    const std::string status = kAnswers.at(world.draw(kAnswers.size()));
    world.trace(from_ + " > " + host + ": a middlebox answers " + status);
    connection->answer_from_middlebox("HTTP/1.1 " + status + "\r\nContent-Type: text/html\r\n\r\n");
  }
  if (again) {
    const auto copy = std::make_shared<Connection>(links_, from_, host, nullptr);
    // As of a peer that sends it once more: later, whatever has become of the first.
    world.at(world.now() + links_->delay(from_, host),
             [copy, outgoing, find] { copy->send_request(outgoing, find); });
  }
  if (forward) connection->send_request(std::move(outgoing), find);
  return connection;
}

}  // namespace

Network::Network(World &world) : state_(std::make_shared<State>(world)) {}
Network::~Network() = default;

void Network::listen(const std::string &host, Machine &machine, std::vector<http::Route> routes) {
  if (const auto older = state_->find(host)) older->close(false);
  const auto listener = std::make_shared<Listener>(machine, std::move(routes));
  state_->listeners[host] = listener;
  machine.at_kill([weak = std::weak_ptr(listener)] {
    if (const auto killed = weak.lock()) killed->close(true);
  });
}

void Network::stop_listening(const std::string &host) {
  const auto listener = state_->find(host);
  if (!listener) return;
  listener->close(false);
  // Handlers that run end before what they use does.
  std::mutex mutex;
  std::unique_lock lock(mutex);
  listener->changed->wait(lock, [&] { return listener->working == 0; });
}

std::unique_ptr<http::Requester> Network::client(Machine &machine, std::string from,
                                                 const http::HttpClientOptions &options) {
  return std::make_unique<SimulatedClient>(
      state_->links,
      [weak = std::weak_ptr(state_)](const std::string &host) {
        const auto state = weak.lock();
        return state ? state->find(host) : nullptr;
      },
      machine, std::move(from), options);
}

void Network::set_faults(const Faults &faults) { state_->links->general = faults; }

void Network::set_faults(const std::string &from, const std::string &to, const Faults &faults) {
  state_->links->own[{from, to}] = faults;
}

void Network::partition(const std::string &from, const std::string &to, bool on) {
  if (on) {
    state_->links->partitions.insert({from, to});
  } else {
    state_->links->partitions.erase({from, to});
  }
}

void Network::calm() {
  state_->links->general = {};
  state_->links->own.clear();
  state_->links->partitions.clear();
}

}  // namespace parsyn::sim
