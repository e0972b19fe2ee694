// A line chart as an SVG document: a few curves over one pair of axes.
//
// The background is transparent. Colours are middle tones that can be read on white and on black; where the
// reader's system says that it is dark, text and grid become lighter.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace benchmarks {

struct Curve {
  std::string label;  ///< Written at the curve's end: no legend to match.
  std::string color;  ///< "#rrggbb"
  std::vector<std::pair<double, double>> points;
};

struct Axis {
  std::string label;
  double min = 0;
  double max = 1;
  double tick = 1;  ///< Distance of labelled ticks, from `min`.
};

struct LineChart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Curve> curves;
};

std::string to_svg(const LineChart &chart);

}  // namespace benchmarks
