#include "coordinator/event_log.hpp"

#include <algorithm>

#include "parsyn/limits.hpp"

namespace parsyn::coordinator {

const Event &EventLog::append(Event event) {
  event.sequence = ++last_sequence_;
  const bool progress = event.type == kProgressEvent;
  std::deque<Event> &events = progress ? progress_ : events_;
  events.push_back(std::move(event));
  if (events.size() > (progress ? limits::kProgressEventsPerJobMax : limits::kEventsPerJobMax))
    events.pop_front();
  return events.back();
}

void EventLog::restore(std::deque<Event> events, std::uint64_t ceiling) {
  events_ = std::move(events);
  last_sequence_ = ceiling;
}

void EventLog::clear() {
  events_ = {};
  progress_ = {};
}

std::uint64_t EventLog::newest() const {
  return std::max(events_.empty() ? 0 : events_.back().sequence,
                  progress_.empty() ? 0 : progress_.back().sequence);
}

std::vector<Event> EventLog::after(std::uint64_t sequence, std::size_t count_max) const {
  auto event = std::ranges::upper_bound(events_, sequence, {}, &Event::sequence);
  auto progress = std::ranges::upper_bound(progress_, sequence, {}, &Event::sequence);
  std::vector<Event> page;
  while (page.size() < count_max && (event != events_.end() || progress != progress_.end())) {
    const bool take_event =
        progress == progress_.end() || (event != events_.end() && event->sequence < progress->sequence);
    page.push_back(take_event ? *event++ : *progress++);
  }
  return page;
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
