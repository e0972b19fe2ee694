#include "parsyn/trainer.hpp"
#include "support/catch.hpp"

namespace {

parsyn::TrainingConfig config_of(parsyn::LearningRateSchedule schedule, std::uint64_t warmup_steps) {
  parsyn::TrainingConfig config;
  config.learning_rate = 0.4;
  config.lr_schedule = schedule;
  config.warmup_steps = warmup_steps;
  return config;
}

}  // namespace

TEST_CASE("The learning rate warms up linearly and reaches its full value with the last warm-up step") {
  for (const auto schedule : {parsyn::LearningRateSchedule::constant, parsyn::LearningRateSchedule::linear,
                              parsyn::LearningRateSchedule::cosine}) {
    const auto config = config_of(schedule, 4);
    CHECK(parsyn::learning_rate_at(config, 0, 20) == Approx(0.1));
    CHECK(parsyn::learning_rate_at(config, 1, 20) == Approx(0.2));
    CHECK(parsyn::learning_rate_at(config, 3, 20) == 0.4);
    CHECK(parsyn::learning_rate_at(config, 4, 20) == 0.4);
  }
}

TEST_CASE("A constant schedule keeps the rate, whatever the step") {
  const auto config = config_of(parsyn::LearningRateSchedule::constant, 0);
  CHECK(parsyn::learning_rate_at(config, 0, 10) == 0.4);
  CHECK(parsyn::learning_rate_at(config, 9, 10) == 0.4);
  CHECK(parsyn::learning_rate_at(config, 1000, 10) == 0.4);
}

TEST_CASE("A linear schedule falls to 0 at the job's end") {
  const auto config = config_of(parsyn::LearningRateSchedule::linear, 2);
  CHECK(parsyn::learning_rate_at(config, 2, 10) == 0.4);
  CHECK(parsyn::learning_rate_at(config, 6, 10) == Approx(0.2));
  CHECK(parsyn::learning_rate_at(config, 9, 10) == Approx(0.05));
  CHECK(parsyn::learning_rate_at(config, 10, 10) == 0.0);
  CHECK(parsyn::learning_rate_at(config, 11, 10) == 0.0);
}

TEST_CASE("A cosine schedule falls along half a cosine to 0 at the job's end") {
  const auto config = config_of(parsyn::LearningRateSchedule::cosine, 0);
  CHECK(parsyn::learning_rate_at(config, 0, 12) == 0.4);
  CHECK(parsyn::learning_rate_at(config, 4, 12) == Approx(0.3));
  CHECK(parsyn::learning_rate_at(config, 6, 12) == Approx(0.2));
  CHECK(parsyn::learning_rate_at(config, 8, 12) == Approx(0.1));
  CHECK(parsyn::learning_rate_at(config, 12, 12) == 0.0);
}

TEST_CASE("A warm-up as long as the job leaves nothing to decay") {
  const auto config = config_of(parsyn::LearningRateSchedule::cosine, 10);
  CHECK(parsyn::learning_rate_at(config, 9, 10) == 0.4);
  CHECK(parsyn::learning_rate_at(config, 10, 10) == 0.0);
  CHECK(parsyn::learning_rate_at(config, 4, 5) == Approx(0.2));
}
