#include "line_chart.hpp"

#include <cstdio>

namespace benchmarks {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 420;
constexpr double kLeft = 64;    // room for the y axis and its labels
constexpr double kRight = 180;  // room for the curves' names
constexpr double kTop = 44;
constexpr double kBottom = 56;

constexpr char kStyle[] =
    "<style>\n"
    "  text { font: 14px system-ui, sans-serif; fill: #6e7681 }\n"
    "  .title { font-weight: 600; font-size: 16px }\n"
    "  .grid { stroke: #8b949e; stroke-opacity: .3 }\n"
    "  .axis { stroke: #8b949e }\n"
    "  .curve { fill: none; stroke-width: 2; stroke-linejoin: round }\n"
    "  @media (prefers-color-scheme: dark) { text { fill: #b1bac4 } }\n"
    "</style>\n";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string escaped(const std::string &text) {
  std::string out;
  for (const char character : text) {
    if (character == '&')
      out += "&amp;";
    else if (character == '<')
      out += "&lt;";
    else if (character == '"')
      out += "&quot;";
    else
      out += character;
  }
  return out;
}

class Drawing {
 public:
  explicit Drawing(const LineChart &chart) : chart_(chart) {}

  std::string svg() {
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " +
           number(kHeight) + "\" role=\"img\" aria-label=\"" + escaped(chart_.title) + "\">\n" + kStyle;
    text(kLeft, 24, chart_.title, "class=\"title\"");
    draw_axes();
    for (const Curve &curve : chart_.curves) draw(curve);
    return out_ + "</svg>\n";
  }

 private:
  double x_of(double value) const {
    return kLeft + (value - chart_.x.min) / (chart_.x.max - chart_.x.min) * (kWidth - kLeft - kRight);
  }
  double y_of(double value) const {
    return kHeight - kBottom -
           (value - chart_.y.min) / (chart_.y.max - chart_.y.min) * (kHeight - kTop - kBottom);
  }

  void text(double x, double y, const std::string &what, const std::string &attributes) {
    out_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + escaped(what) +
            "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char *style) {
    out_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
            number(y2) + "\" class=\"" + style + "\"/>\n";
  }

  void draw_axes() {
    const double right = kWidth - kRight;
    const double bottom = kHeight - kBottom;
    for (int i = 0; chart_.y.min + i * chart_.y.tick <= chart_.y.max; ++i) {
      const double value = chart_.y.min + i * chart_.y.tick;
      line(kLeft, y_of(value), right, y_of(value), i == 0 ? "axis" : "grid");
      text(kLeft - 8, y_of(value) + 5, number(value), "text-anchor=\"end\"");
    }
    for (int i = 0; chart_.x.min + i * chart_.x.tick <= chart_.x.max; ++i) {
      const double value = chart_.x.min + i * chart_.x.tick;
      line(x_of(value), bottom, x_of(value), bottom + 5, "axis");
      text(x_of(value), bottom + 21, number(value), "text-anchor=\"middle\"");
    }
    text((kLeft + right) / 2, kHeight - 12, chart_.x.label, "text-anchor=\"middle\"");
    const std::string middle = number((kTop + bottom) / 2);
    text(0, 0, chart_.y.label,
         "text-anchor=\"middle\" transform=\"translate(18 " + middle + ") rotate(-90)\"");
  }

  void draw(const Curve &curve) {
    if (curve.points.empty()) return;
    out_ += "<polyline class=\"curve\" stroke=\"" + curve.color + "\" points=\"";
    for (const auto &[x, y] : curve.points) out_ += number(x_of(x)) + "," + number(y_of(y)) + " ";
    out_ += "\"/>\n";
    const auto &[x, y] = curve.points.back();
    text(x_of(x) + 8, y_of(y) + 5, curve.label, "style=\"fill: " + curve.color + "\"");
  }

  const LineChart &chart_;
  std::string out_;
};

}  // namespace

std::string to_svg(const LineChart &chart) { return Drawing(chart).svg(); }

}  // namespace benchmarks
