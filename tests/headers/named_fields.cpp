// Compiled only. A field without a default would be warned of here, as it would be in a host's own source.
#include "parsyn/parsyn.hpp"

namespace {

[[maybe_unused]] void name_one_field_of_each(const parsyn::DatasetFileOptions &file) {
  using namespace parsyn;
  [[maybe_unused]] const SqliteJournalOptions journal{.file = "journal.sqlite"};
  [[maybe_unused]] const JournalWrite write{.key = "k"};
  [[maybe_unused]] const KeyRange range{.first = "a"};
  [[maybe_unused]] const CoordinatorOptions coordinator{.threads = 1};
  [[maybe_unused]] const ServeOptions serve{.port = 0};
  [[maybe_unused]] const HttpTransportOptions transport{.url = "http://127.0.0.1:8080"};
  [[maybe_unused]] const WorkerOptions worker{.finish_task_on_stop = true};
  [[maybe_unused]] const WorkerSpec worker_spec{.name = "a"};
  [[maybe_unused]] const DatasetSpec dataset{.train = file};
  [[maybe_unused]] const DatasetFileOptions named_file{.path = "a.csv"};
  [[maybe_unused]] const ModelSpec model{.description = {.kind = "custom"}};
  [[maybe_unused]] const ModelSpec from_job{.from_job = 1};
  [[maybe_unused]] const JobConfig job{.config = {.learning_rate = 0.1},
                                       .distributed = DistributedConfig{.num_rounds = 2},
                                       .worker_selection = {.worker_ids = {1}}};
  [[maybe_unused]] const JobConfig seeded{.seed = 7};
  [[maybe_unused]] const PartitionRequest partitions{.num_examples = 3};
  [[maybe_unused]] const RoundOptions round{.min_workers = 1};
  [[maybe_unused]] const RoundOpened opened{.cohort = {{.worker = 1}}};
  [[maybe_unused]] const ReportArrived arrived{.report = {.worker = 1}};
  [[maybe_unused]] const UpdateChecked checked{.worker = 1};
  [[maybe_unused]] const AggregationFinished averaged{.failure = "no space"};
  [[maybe_unused]] const Update update{.worker_id = 1};
  [[maybe_unused]] const TensorSpec tensor_spec{.name = "w"};
  [[maybe_unused]] const Tensor tensor{.shape = {1}};
  [[maybe_unused]] const Examples examples{.x = {}};
  [[maybe_unused]] const TrainerCapabilities capabilities{.model_kinds = {"custom"}};
  [[maybe_unused]] const Evaluation evaluation{.loss = 1};
  [[maybe_unused]] const ObjectInfo object{.key = "k"};
  [[maybe_unused]] const Fault fault{.field = "name"};
  [[maybe_unused]] const SessionRequest session{.instance = "i"};
  [[maybe_unused]] const Report report{.lease = 1};
  [[maybe_unused]] const Heartbeat heartbeat{.lease = 1};
}

}  // namespace
