// The loop of a middlebox on loopback.
#pragma once

#include <poll.h>

#include <atomic>
#include <list>
#include <vector>

#include "support/raw_socket.hpp"

namespace parsyn::test {

/// Pairs each connection that comes with one to `upstream`, until `stopping`. `Pair` has a `client` and a
/// `server`, both RawConnections. At each look `serve(pair, client_has, server_has)` is told which side has
/// sent something; where it returns false, the pair ends.
template <typename Pair, typename Serve>
void pass_connections(RawListener &listener, std::uint16_t upstream, const std::atomic<bool> &stopping,
                      const Serve &serve) {
  constexpr int kLookMilliseconds = 10;
  std::list<Pair> pairs;
  while (!stopping) {
    std::vector<pollfd> polled{{listener.descriptor(), POLLIN, 0}};
    for (const Pair &pair : pairs) {
      polled.push_back({pair.client.descriptor(), POLLIN, 0});
      polled.push_back({pair.server.descriptor(), POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), kLookMilliseconds);
    std::size_t index = 1;
    for (auto pair = pairs.begin(); pair != pairs.end();) {
      const bool client_has = polled[index++].revents != 0;
      const bool server_has = polled[index++].revents != 0;
      pair = serve(*pair, client_has, server_has) ? std::next(pair) : pairs.erase(pair);
    }
    if (polled[0].revents == 0) continue;
    RawConnection client = listener.accept();
    try {
      pairs.push_back({std::move(client), RawConnection(upstream), {}});
    } catch (const std::exception &) {
      // Nobody listens upstream: the client sees its connection end.
    }
  }
}

}  // namespace parsyn::test
