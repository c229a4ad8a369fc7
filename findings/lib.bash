# lib.bash: what the scripts of this folder share; they source it. Each works in a temporary folder,
# which is removed at the end, and stops the processes that it started.
set -euo pipefail

work=$(mktemp -d)
started=()
cleanup() {
  [ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap cleanup EXIT

# python_packages PACKAGE==VERSION... installs packages into a virtual environment, $work/python.
python_packages() {
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
  python=$work/venv/bin/python
}

# kafka_jars VERSION installs Apache Kafka with its tools into $work/lib, by Maven.
kafka_jars() {
  local artifact
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>f</groupId><artifactId>f</artifactId><version>1</version><dependencies>'
    for artifact in kafka_2.13 kafka-tools kafka-clients kafka-server; do
      echo "<dependency><groupId>org.apache.kafka</groupId><artifactId>$artifact</artifactId>"
      echo "<version>$1</version></dependency>"
    done
    echo '</dependencies></project>'
  } > "$work/pom.xml"
  mvn -q -B -f "$work/pom.xml" -DoutputDirectory="$work/lib" dependency:copy-dependencies
}

# free_port prints a TCP port of the loopback interface that is free now.
free_port() {
  python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# kafka_start [LINE...] starts one Kafka broker with these lines in its properties, and sets
# bootstrap and data (its log directory).
kafka_start() {
  local port controller
  port=$(free_port) controller=$(free_port) data=$work/data bootstrap=127.0.0.1:$port
  cat > "$work/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
P
  printf '%s\n' "$@" >> "$work/server.properties"
  kafka_run kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ \
    -c "$work/server.properties" > "$work/format.log" 2>&1
  java -Xmx512m -cp "$work/lib/*" kafka.Kafka "$work/server.properties" > "$work/kafka.log" 2>&1 &
  started+=($!)
  for _ in $(seq 600); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
    kill -0 "${started[-1]}" || { tail "$work/kafka.log"; exit 1; }
    sleep 0.2
  done
  echo "Kafka did not start"; exit 1
}

# kafka_run CLASS ARGUMENT... runs a tool of Kafka.
kafka_run() { java -Xmx256m -cp "$work/lib/*" "$@"; }

# same WHAT GOT WANT fails the script unless the observation is the recorded one.
same() {
  if [ "$2" = "$3" ]; then echo "$1: $2"; return; fi
  echo "CHANGED $1: got '$2', recorded '$3'"; exit 1
}
