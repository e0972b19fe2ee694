// A simulated network that carries HTTP between the machines of a World: real routes, the real Router and
// Exchange on the server's side, the real header text, and the real receiver of answers on the client's.
//
// A request and its answer are two ordered streams of pieces, as on a TCP connection: each piece takes a time
// that is drawn from the seed, and a fault may lose, cut, repeat or change it. What HttpServer and HttpClient
// do about time-outs, sizes, peers that go away and broken bodies is done here as their contracts say.
//
// A handler runs on a fiber of its server's machine. When a process is killed, its clients see their
// connections reset, and its own requests end at their servers as those of a peer that has gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "sim/world.hpp"

namespace parsyn::sim {

class Network {
 public:
  /// Of one direction between two hosts, or of all. Chances are of a thousand, for each message: a request or
  /// an answer, whole.
  struct Faults {
    Time delay_min{0};  ///< Of each piece; it never overtakes the one ahead of it.
    Time delay_max{3};
    /// A piece takes up to late_max instead: it may come when nobody waits for it any more.
    std::uint64_t late = 0;
    Time late_max{60'000};
    std::uint64_t lose = 0;       ///< From some piece on nothing comes, and nobody is told: time-outs end it.
    std::uint64_t cut = 0;        ///< From some piece on the connection is reset, on both sides.
    std::uint64_t duplicate = 0;  ///< Requests only: comes twice, is done twice, answered once.
    /// One bit of the body of an object is flipped on its way (application/octet-stream only: JSON has no
    /// digest that would tell).
    std::uint64_t corrupt = 0;
    /// Requests only: a middlebox answers 502, 503 or 504 in its own words; half of these requests are done
    /// all the same.
    std::uint64_t gateway = 0;
  };

  explicit Network(World &world);
  ~Network();
  Network(const Network &) = delete;
  Network &operator=(const Network &) = delete;

  /// Requests to this host (of a URL; the port does not count) come to the process that runs on `machine`
  /// now, until it is killed or somebody else listens. What the routes use outlives the process or dies with
  /// it.
  void listen(const std::string &host, Machine &machine, std::vector<http::Route> routes);
  /// As HttpServer::stop: open requests are reset, later ones refused, handlers that run have ended. From a
  /// fiber of its machine.
  void stop_listening(const std::string &host);

  /// A client of the process that runs on `machine` now; `from` is its host's name. Its perform() is for
  /// fibers of that machine. The network outlives it.
  std::unique_ptr<http::Requester> client(Machine &machine, std::string from,
                                          const http::HttpClientOptions &options = {});

  /// Of every direction that has none of its own.
  void set_faults(const Faults &faults);
  /// Of messages from one host to another: of requests where `to` listens, of answers where `from` does.
  void set_faults(const std::string &from, const std::string &to, const Faults &faults);
  /// While it is on, no message from `from` arrives at `to`: it waits, as TCP would send it again, until this
  /// is off or one side gives up.
  void partition(const std::string &from, const std::string &to, bool on);
  /// No fault and no partition from now on, only delays of a few milliseconds. What is lost already stays
  /// lost.
  void calm();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace parsyn::sim
