# bench-lib.bash is shared by the scripts that measure brokers. A script sets these variables,
# sources this file, and calls start and stop.
#
#   dir         existing directory of the script; start replaces $dir/data
#   port        of the broker; the next port is used for HTTP or by Kafka's controller
#   KAFKA_LIB   directory of Apache Kafka's jars, for kind kafka
#   properties  more lines of Kafka's server.properties; may be unset
#   format      more arguments of Kafka's storage tool, an array; may be unset
#   listener    Kafka's security protocol of the listener; default PLAINTEXT
#   manifest    file of the LogCluster; default: a plain one, $dir/cluster.yaml

cat > "$dir/cluster.yaml" <<YAML
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: bench}
spec: {brokers: 1}
YAML

pid=
stop() {
  [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
  pid=
  rm -rf "$dir/data"
}
trap stop EXIT

start_kafka() {
  local at=${listener:-PLAINTEXT}
  cat > "$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=$at://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
listener.security.protocol.map=CONTROLLER:PLAINTEXT,$at:$at
inter.broker.listener.name=$at
advertised.listeners=$at://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$dir/data/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
${properties:-}
P
  java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ \
    -c "$dir/server.properties" "${format[@]}" > "$dir/kafka.out" 2>&1
  java -server -Xms1G -Xmx1G -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
    -XX:InitiatingHeapOccupancyPercent=35 -Dkafka.logs.dir="$dir" \
    -cp "$KAFKA_LIB/*" kafka.Kafka "$dir/server.properties" >> "$dir/kafka.out" 2>&1 &
}
[ -n "${format+set}" ] || format=()

# start starts a broker with an empty directory, and waits until it listens. Kind kafka is Apache
# Kafka; any other kind is heartwood dev of the binary. Its output is in $dir/KIND.out.
start() { # KIND BINARY
  rm -rf "$dir/data"; mkdir -p "$dir/data"
  if [ "$1" = kafka ]; then
    start_kafka
  else
    "$2" dev -f "${manifest:-$dir/cluster.yaml}" --data-dir "$dir/data/log" \
      --listen "127.0.0.1:$port" --http "127.0.0.1:$((port + 1))" > "$dir/$1.out" 2>&1 &
  fi
  pid=$!
  for ((i = 0; i < 600; i++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    kill -0 "$pid" || { tail -5 "$dir/$1.out" >&2; exit 1; }
    sleep 0.1
  done
  echo "the broker did not listen within 60 s" >&2; exit 1
}

# ticks prints the CPU time that the broker has used, in clock ticks (100 per second).
ticks() { awk '{print $14 + $15}' "/proc/$pid/stat"; }

field() { sed -n "s/.*\"$2\": *\([0-9.]*\).*/\1/p" "$1" | head -1; }

# measure runs `heartwood bench` of the binary $client with the flags of the array client_flags. It
# prints the kind, the measurement, MB/s, the CPU time of broker and client in seconds per gigabyte,
# and latencies in milliseconds.
measure() { # KIND MEASUREMENT ARGUMENTS-OF-HEARTWOOD-BENCH...
  local kind=$1 what=$2 before after gb client_cpu; shift 2
  before=$(ticks)
  "$client" bench "$@" --bootstrap "127.0.0.1:$port" "${client_flags[@]}" --json \
    > "$dir/result.json"
  after=$(ticks)
  tr -d '\n' < "$dir/result.json" > "$dir/result.line"
  gb=$(field "$dir/result.line" bytes); client_cpu=$(field "$dir/result.line" cpuSeconds)
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$kind" "$what" "$(field "$dir/result.line" MBs)" \
    "$(awk -v b="$before" -v a="$after" -v gb="$gb" \
      'BEGIN {printf "%.2f", (a - b) / 100 / (gb / 1e9)}')" \
    "$(awk -v s="$client_cpu" -v gb="$gb" 'BEGIN {printf "%.2f", s / (gb / 1e9)}')" \
    "$(field "$dir/result.line" p50Millis)" "$(field "$dir/result.line" p99Millis)"
}
client_flags=()
