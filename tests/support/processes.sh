# Real processes on loopback, for the tests that kill, cut off and starve them. Sourced, after $suite is set.
#
#   launch NAME COMMAND...   starts it; its stdout and stderr go to $work/NAME.out and .log. relaunch NAME: the same again
#   kill_hard NAME           SIGKILL;  end NAME: SIGTERM, and its exit code in $code
#   start_coordinator        on a free port, with its state in $state; start_worker NAME [URL]
#   get PATH                 the body of an answer of the coordinator; fails when it is away, or the status is no 2xx
#   wait_for SECONDS COMMAND, pause SECONDS
bin=${PARSYN_PROGRAMS:-$PWD/build/bin}
work=$(mktemp -d)
state=$work/state
declare -A pid command
checks=0
ok() { checks=$((checks + 1)); }
fail() { echo "$suite: $*" >&2; exit 1; }
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
# Only to spread what the test does over time, never to wait for something.
pause() { read -rt "$1" <> <(:) || true; }
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || fail "waited too long for: $*"
    pause 0.1
  done
}

finish() {
  local code=$? name
  trap - EXIT
  for name in "${!pid[@]}"; do kill -9 "${pid[$name]}" 2>/dev/null || true; done
  kill $(jobs -p) 2>/dev/null || true
  wait 2>/dev/null || true
  if declare -F clean_up >/dev/null; then clean_up; fi
  if [ "$code" = 0 ]; then
    rm -rf "$work"
  else
    tail -n 12 "$work"/*.log 2>/dev/null || true
    echo "$suite: failed${seed:+ with --seed $seed}; the logs are kept in $work" >&2
  fi
  exit "$code"
}
trap 'echo "$suite: line $LINENO of ${BASH_SOURCE[0]}: $BASH_COMMAND failed" >&2' ERR
trap finish EXIT
trap 'exit 130' INT TERM

launch() {
  local name=$1
  shift
  command[$name]=$(printf '%q ' "$@")
  relaunch "$name"
}
relaunch() {
  # Of its own name alone what it prints now; its log goes on.
  eval "${command[$1]}" '>"$work/$1.out" 2>>"$work/$1.log" &'
  pid[$1]=$!
}
kill_hard() {
  kill -9 "${pid[$1]}"
  { wait "${pid[$1]}" || true; } 2>/dev/null
}
code=0
end() {
  code=0
  kill -TERM "${pid[$1]}"
  wait "${pid[$1]}" || code=$?
  unset "pid[$1]"
}
is_alive() { kill -0 "${pid[$1]}" 2>/dev/null; }

# A fixed port, as the same command has to work again after a kill. Below those that the system gives out itself.
start_coordinator() { # FURTHER ARGUMENTS
  local try
  for try in {1..20}; do
    port=$((20000 + ($$ * 13 + try * 101) % 10000))
    launch coordinator "$bin/parsyn-coordinator" --state "$state" --listen "127.0.0.1:$port" \
      --heartbeat-interval 0.5 --lease 5 --join-window 0.2 "$@"
    local deadline=$((SECONDS + 30))
    until grep -qs listening "$work/coordinator.out"; do
      [ "$SECONDS" -lt "$deadline" ] || fail "the coordinator does not listen"
      if ! is_alive coordinator; then
        grep -q "in use" "$work/coordinator.log" || fail "the coordinator does not start"
        continue 2
      fi
      pause 0.05
    done
    url=http://127.0.0.1:$port
    export PARSYN_COORDINATOR=$url PARSYN_TOKEN_FILE=$state/operator.token
    token=$(cat "$state/operator.token")
    return
  done
  fail "no free port"
}
start_worker() { # NAME [URL [FURTHER ARGUMENTS]]
  local name=$1 to=${2:-$url}
  shift $(($# < 2 ? $# : 2))
  [ -e "$work/$name.token" ] || job worker add --name "$name" --token-file "$work/$name.token" >/dev/null
  launch "$name" "$bin/parsyn-worker" --coordinator "$to" --token-file "$work/$name.token" --cache "$work/cache-$name" "$@"
}
job() { "$bin/parsyn-job" "$@"; }

# status PATH: the status in $status and the body in $answer; fails when nobody answers.
status() {
  local text
  text=$(exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$port" &&
    printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n' "$1" "$token" >&3 &&
    timeout 20 cat <&3) || return 1
  status=${text:9:3}
  answer=${text#*$'\r\n\r\n'}
  [ -n "$status" ]
}
get() { status "$1" && [ "${status:0:1}" = 2 ] && printf '%s' "$answer"; }

# A small deterministic job: a dataset of 600 rows and an mlp, registered as dataset 1 and model 1; workers 1, 2 and 3
# have to report in every round, so that nothing but a wrong round could change the result.
register_job() {
  awk 'BEGIN { srand(1); print "a,b,label"; for (i = 0; i < 600; ++i) { a = rand(); b = rand(); print a "," b "," (a > b ? 1 : 0) } }' >"$work/train.csv"
  job dataset add --name small --train "$work/train.csv" --validation-fraction 0.2 >/dev/null
  job model add --name small --kind mlp --sizes 2,64,64,2 >/dev/null
}
job_document() { # ROUNDS STEPS
  cat <<JSON
{"name": "small", "dataset_id": 1, "model_id": 1, "seed": 11, "config": {"batch_size": 8, "learning_rate": 0.1},
 "distributed": {"num_rounds": $1, "steps_per_round": $2, "min_workers": 3, "max_workers": 3, "aggregation_timeout": 3600, "fault_tolerance": 100},
 "worker_selection": {"mode": "own", "worker_ids": [1, 2, 3]}}
JSON
}
job_state() { get "/api/v1/training-jobs/$1" | grep -oE '"state":"[a-z]+"' | head -n 1 | cut -d'"' -f4; }
has_ended() { [[ $(job_state "$1") =~ ^(completed|failed|stopped|cancelled)$ ]]; }
# What is left of a job, by content: "ROUND SHA256" of each kept model.
model_digests() { # ID
  find "$state/objects/jobs/$1" -type f -exec sha256sum {} + | sed -E 's|^([0-9a-f]+) .*|\1|' | sort
}
final_digest() { # ID
  job download "$1" --output "$work/model-$1.safetensors" >/dev/null
  sha256sum <"$work/model-$1.safetensors" | cut -d' ' -f1
}
# Every round is there once, in its place, with all three workers in it; and so are its events.
check_job() { # ID ROUNDS
  local id=$1 rounds=$2 document
  document=$(get "/api/v1/training-jobs/$id") || fail "job $id cannot be read"
  [ "$(job_state "$id")" = completed ] || fail "job $id has ended: $document"
  diff <(grep -oE '"round":[0-9]+,"failed_attempts":[0-9]+,"succeeded":true' <<<"$document" | grep -oE '^"round":[0-9]+' | cut -d: -f2) <(seq "$rounds") >&2 ||
    fail "the rounds of job $id are not 1 to $rounds, once each"
  [ "$(grep -oE '"contributions":\[[^]]*' <<<"$document" | grep -c '"worker_id":1,.*"worker_id":2,.*"worker_id":3,')" = "$rounds" ] ||
    fail "a round of job $id lacks a worker: $document"
  job --json events "$id" >"$work/events-$id"
  sed -E 's/.*"sequence":([0-9]+).*/\1/' "$work/events-$id" | sort -nuc || fail "the events of job $id are out of order"
  diff <(grep '"type":"round_completed"' "$work/events-$id" | grep -oE '"data":\{"round":[0-9]+' | cut -d: -f3) <(seq "$rounds") >&2 ||
    fail "round_completed of job $id is not there once for each round, in order"
  [ "$(tail -n 1 "$work/events-$id" | grep -c '"type":"job_completed"')" = 1 ] && [ "$(grep -c '"type":"job_completed"' "$work/events-$id")" = 1 ] ||
    fail "job_completed is not the last event of job $id, once"
  ok
}
