#!/usr/bin/env bash
# bench-security.sh measures what TLS and SCRAM cost a broker of each kind, in turns, on one machine
# and with the same client (`heartwood bench`): the CPU time per gigabyte, and full TLS handshakes
# per second of CPU time. docs/internals/bench/security.md contains the results. The last lines are
# the ratios of the medians, with their targets.
#
#   ours     heartwood dev with TLS, SCRAM-SHA-512 and authorization
#   plain    heartwood dev without them
#   kafka    Apache Kafka with the same as ours, from the jars in directory KAFKA_LIB; skipped if
#            KAFKA_LIB is not set; its certificate has the same kind of key (P-256)
#
# Each broker starts with an empty directory, is warmed up with a tenth of the records, and is
# stopped by its pid. Handshakes are measured if openssl is installed.
#
# DIR=tmp/bench-security TURNS=3 RECORDS=1000000 BYTES=1000 SECONDS_EACH=10 PORT=31392
# KINDS="ours plain kafka" KAFKA_LIB= HEARTWOOD=(a binary; default: built)
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mkdir -p "${DIR:-tmp/bench-security}" && cd "${DIR:-tmp/bench-security}" && pwd)
port=${PORT:-31392}; turns=${TURNS:-3}; each=${SECONDS_EACH:-10}
records=${RECORDS:-1000000}; bytes=${BYTES:-1000}
kinds=${KINDS:-ours plain kafka}; [ -n "${KAFKA_LIB:-}" ] || kinds=${kinds/kafka/}
client=${HEARTWOOD:-$dir/heartwood}
[ -n "${HEARTWOOD:-}" ] || CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$client" \
  ./cmd/heartwood

. hack/bench-lib.bash

cat > "$dir/secured.yaml" <<YAML
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: bench}
spec:
  brokers: 1
  listeners: [{name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha512}]}]
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: bench}
spec:
  cluster: bench
  authentication: {type: Scram}
  acls:
  - {resource: {type: Topic, name: "*"}, operations: [All]}
  - {resource: {type: Cluster, name: kafka-cluster}, operations: [IdempotentWrite]}
YAML

# secure_kafka sets the configuration of Kafka. The key store is made once.
secure_kafka() {
  local password=bench-password store=$dir/kafka.p12
  if [ ! -f "$store" ]; then
    keytool -genkeypair -alias kafka -keyalg EC -groupname secp256r1 -dname CN=localhost \
      -ext SAN=dns:localhost,ip:127.0.0.1 -validity 30 -storetype PKCS12 -keystore "$store" \
      -storepass "$password" > "$dir/keytool.out" 2>&1
    keytool -exportcert -rfc -alias kafka -keystore "$store" -storepass "$password" \
      -file "$dir/kafka.crt" >> "$dir/keytool.out" 2>&1
  fi
  echo "$password" > "$dir/kafka.password"
  listener=SASL_SSL
  format=(--add-scram "SCRAM-SHA-512=[name=bench,password=$password]")
  local login=org.apache.kafka.common.security.scram.ScramLoginModule
  properties="ssl.keystore.type=PKCS12
ssl.keystore.location=$store
ssl.keystore.password=$password
ssl.key.password=$password
ssl.truststore.type=PEM
ssl.truststore.location=$dir/kafka.crt
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=$login required username=\"bench\" \
  password=\"$password\";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:bench;User:ANONYMOUS"
}

# prepare starts a broker of a kind, and sets the flags with which clients connect.
prepare() { # KIND
  manifest=$dir/cluster.yaml; listener=PLAINTEXT; properties=; format=(); client_flags=()
  case $1 in
  ours)
    manifest=$dir/secured.yaml
    start ours "$client"
    local files=$dir/data/log/users/bench
    for ((i = 0; i < 600; i++)); do [ -f "$files/client.properties" ] && break; sleep 0.1; done
    client_flags=(--ca-file "$files/ca.crt" --user bench --password-file "$files/password") ;;
  plain) start plain "$client" ;;
  kafka)
    secure_kafka
    start kafka
    client_flags=(--ca-file "$dir/kafka.crt" --user bench --password-file "$dir/kafka.password") ;;
  esac
}

# handshakes prints the full TLS handshakes per second of the broker's CPU time.
handshakes() { # KIND
  local before after count
  before=$(ticks)
  count=$(openssl s_time -connect "127.0.0.1:$port" -new -time "$each" 2> /dev/null |
    sed -n 's/^\([0-9]*\) connections in .* real seconds.*/\1/p' | head -1)
  after=$(ticks)
  printf '%s\thandshakes per CPU second\t\t%s\n' "$1" \
    "$(awk -v n="${count:-0}" -v b="$before" -v a="$after" \
      'BEGIN {printf "%.0f", (a > b) ? n * 100 / (a - b) : 0}')"
}

median() { # KIND MEASUREMENT
  awk -F '\t' -v k="$1" -v m="$2" '$1 == k && $2 == m {print $4}' "$dir/rows" | sort -n |
    awk '{v[NR] = $1} END {print (NR ? v[int((NR + 1) / 2)] : 0)}'
}

ratio() { # NAME NUMERATOR DENOMINATOR TARGET
  awk -v n="$1" -v a="$2" -v b="$3" -v t="$4" \
    'BEGIN {if (a > 0 && b > 0) printf "%s: %.2f (target: %s)\n", n, a / b, t}'
}

rm -f "$dir/rows"
uptime
printf 'broker\tmeasurement\tMB/s\tbroker CPU s/GB\tclient CPU s/GB\tp50 ms\tp99 ms\n'
for ((turn = 0; turn < turns; turn++)); do
  for kind in $kinds; do
    prepare "$kind"
    "$client" bench produce --bootstrap "127.0.0.1:$port" "${client_flags[@]}" --topic warm \
      --records $((records / 10)) --record-bytes "$bytes" > /dev/null
    "$client" bench consume --bootstrap "127.0.0.1:$port" "${client_flags[@]}" --topic warm \
      > /dev/null
    {
      measure "$kind" produce produce --topic t --records "$records" --record-bytes "$bytes"
      measure "$kind" consume consume --topic t
      [ "$kind" = plain ] || ! command -v openssl > /dev/null || handshakes "$kind"
    } | tee -a "$dir/rows"
    stop
  done
done
uptime
for what in produce:0.5 consume:0.6; do
  name=${what%:*}
  ratio "$name, ours / kafka" "$(median ours "$name")" "$(median kafka "$name")" \
    "at most ${what#*:}"
done
ratio "handshakes per CPU second, ours / kafka" \
  "$(median ours "handshakes per CPU second")" "$(median kafka "handshakes per CPU second")" \
  "at least 1.5"
echo "consume with TLS: $(median ours consume) CPU s/GB (target: at most 1.28, twice the copying path)"
