#include "coordinator/event_log.hpp"

#include <algorithm>

#include "parsyn/limits.hpp"

namespace parsyn::coordinator {

const Event &EventLog::append(Event event) {
  event.sequence = ++last_sequence_;
  events_.push_back(std::move(event));
  if (events_.size() > limits::kEventsPerJobMax) events_.pop_front();
  return events_.back();
}

std::vector<Event> EventLog::after(std::uint64_t sequence, std::size_t count_max) const {
  const auto first = std::ranges::upper_bound(events_, sequence, {}, &Event::sequence);
  const auto available = static_cast<std::size_t>(events_.end() - first);
  return {first, first + static_cast<std::ptrdiff_t>(std::min(available, count_max))};
}

std::shared_ptr<void> EventLog::subscribe(std::function<void()> notify) {
  auto subscription = std::make_shared<Subscription>(std::move(notify));
  // Nothing is published any more for a job that has ended: those that are gone are taken out here too.
  std::erase_if(subscribers_, [](const auto &entry) { return entry.expired(); });
  subscribers_.push_back(subscription);
  // The handle owns the subscription and silences it on the way out.
  return {subscription.get(), [subscription](void *) { subscription->end(); }};
}

std::vector<std::shared_ptr<Subscription>> EventLog::subscribers() {
  std::vector<std::shared_ptr<Subscription>> live;
  std::erase_if(subscribers_, [&](const std::weak_ptr<Subscription> &entry) {
    auto subscription = entry.lock();
    if (subscription) live.push_back(std::move(subscription));
    return entry.expired();
  });
  return live;
}

}  // namespace parsyn::coordinator
