// docs/jobs.md and docs/rest.md are what people copy from: their examples are accepted, and their tables tell
// the truth.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "wire/job_document.hpp"
#include "wire/registry_documents.hpp"

namespace {

using namespace parsyn;
using nlohmann::json;

std::string guide(const std::string &name = "jobs.md") {
  std::ifstream file(std::string(PARSYN_TEST_DATA) + "/../docs/" + name, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The text after `heading`, up to the next heading of any level.
std::string section(const std::string &text, const std::string &heading) {
  const std::size_t start = text.find("\n" + heading + "\n");
  REQUIRE(start != std::string::npos);
  const std::size_t body = start + heading.size() + 2;
  return text.substr(body, text.find("\n#", body) - body);
}

/// Field and default of each row of a table whose first column is the field and whose third is the default.
std::vector<std::pair<std::string, std::string>> defaults_of(const std::string &table) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) {
      cell.erase(std::remove_if(cell.begin(), cell.end(), [](char c) { return c == ' ' || c == '`'; }),
                 cell.end());
      cells.push_back(cell);
    }
    REQUIRE(cells.size() >= 3);
    rows.emplace_back(cells[0], cells[2]);
  }
  return rows;
}

void check_table(const std::string &heading, json written) {
  // "a.b" in the table is b in a.
  json flat = json::object();
  for (const auto &[name, value] : written.items()) {
    if (value.is_object()) {
      for (const auto &[inner, inner_value] : value.items()) flat[name + "." + inner] = inner_value;
    } else {
      flat[name] = value;
    }
  }
  const auto rows = defaults_of(section(guide(), heading));
  for (const auto &[name, value] : flat.items()) {
    INFO(name);
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto &one) { return one.first == name; });
    REQUIRE(row != rows.end());
    CHECK((value.is_string() ? json(row->second) : json::parse(row->second)) == value);
  }
}

}  // namespace

TEST_CASE("every example body of the guide to jobs is accepted") {
  const std::string text = guide();
  const std::string opening = "```json\n";
  int examples = 0;
  for (std::size_t start = text.find(opening); start != std::string::npos;
       start = text.find(opening, start + 1)) {
    const std::size_t body = start + opening.size();
    const auto parsed = wire::parse_job(text.substr(body, text.find("```", body) - body));
    for (const Fault &fault : parsed.faults) FAIL_CHECK(fault.message);
    ++examples;
  }
  CHECK(examples == 4);
}

TEST_CASE("the guide's long example says every field") {
  const std::string text = guide();
  const std::size_t body = text.rfind("```json\n") + 8;
  const json example = json::parse(text.substr(body, text.find("```", body) - body));
  const auto parsed = wire::parse_job(example.dump());
  REQUIRE(parsed.faults.empty());
  CHECK(example == json::parse(wire::job_config_json(parsed.value)));
}

TEST_CASE("the guide's tables have the defaults of the C++ contract") {
  JobConfig job;
  job.distributed.emplace();
  job.config.early_stopping.emplace();
  const json written = json::parse(wire::job_config_json(job));
  check_table("### `config`", written["config"]);
  check_table("### `distributed`", written["distributed"]);
}

TEST_CASE("every example body of the guide to REST is accepted") {
  std::istringstream lines(guide("rest.md"));
  int examples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("post ")) continue;
    INFO(line);
    const std::size_t quote = line.find('\'');
    REQUIRE(quote != std::string::npos);
    const std::string body = line.substr(quote + 1, line.rfind('\'') - quote - 1);
    if (line.starts_with("post workers ")) {
      CHECK(wire::parse_worker_spec(body).faults.empty());
    } else if (line.starts_with("post datasets ")) {
      CHECK(wire::parse_dataset_spec(body).faults.empty());
    } else if (line.starts_with("post models ")) {
      CHECK(wire::parse_model_spec(body).faults.empty());
    } else {
      CHECK(wire::parse_job(body).faults.empty());
    }
    ++examples;
  }
  CHECK(examples == 8);
}
