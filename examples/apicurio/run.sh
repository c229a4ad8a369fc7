#!/usr/bin/env bash
# run.sh runs Apicurio Registry with its journal in a topic of Heartwood. The registry must answer
# alike after the broker was restarted and killed, and, rebuilt from the journal, after the journal
# was cleaned.
# shellcheck source=../lib.bash
. "$(dirname "$0")/../lib.bash"
need curl "Debian's package curl"
need java "Java 17 or later, Debian's package default-jre-headless"

step "Install the pinned registry"
registry=$cache/apicurio-registry-3.0.9
if [ ! -d "$registry" ]; then
  need mvn "Maven, Debian's package maven"
  # dependency:unpack cannot be used: it reads the parent of the artifact's POM, which is not there.
  artifact=io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all
  skip_on "Maven cannot download the registry" \
    mvn -B -q dependency:get "-Dartifact=$artifact" -Dtransitive=false
  repository=$(mvn -B -q help:evaluate -Dexpression=settings.localRepository -DforceStdout |
    sed 's/\x1b\[[0-9;]*m//g') # Maven may print colours
  rm -rf "$registry.partial"
  mkdir -p "$registry.partial"
  tar -xzf "$repository"/io/apicurio/apicurio-registry-app/3.0.9/*-all.tar.gz \
    -C "$registry.partial"
  mv "$registry.partial" "$registry"
fi

port=$(free_port)
url=http://127.0.0.1:$port/apis/registry/v3
start_registry() {
  start registry env APICURIO_STORAGE_KIND=kafkasql \
    APICURIO_KAFKASQL_BOOTSTRAP_SERVERS="$bootstrap" \
    APICURIO_KAFKASQL_TOPIC_AUTO_CREATE=false \
    APICURIO_REST_DELETION_ARTIFACT_ENABLED=true \
    QUARKUS_HTTP_HOST=127.0.0.1 QUARKUS_HTTP_PORT="$port" \
    java -XX:TieredStopAtLevel=1 -jar "$registry/apicurio-registry-app-3.0.9-runner.jar"
  until_true registry "the registry is ready" quietly curl -fsS "$url/system/info"
  say "the registry is ready at $url"
}
quietly() { "$@" >/dev/null 2>&1; }

send() { # METHOD PATH [BODY]; it repeats a request that fails while the broker restarts
  until_true registry "$1 $2" quietly curl -fsS -X "$1" "$url/groups/shop/$2" \
    -H 'Content-Type: application/json' ${3:+-d "$3"}
}
content() { # FIELD; prints the JSON of an Avro schema with one field
  printf '{"content":{"contentType":"application/json","content":"%s"}}' \
    "{\\\"type\\\":\\\"record\\\",\\\"name\\\":\\\"R\\\",\\\"fields\\\":[{\\\"name\\\":\\\"$1\\\",\\\"type\\\":\\\"long\\\"}]}"
}
create() { # ID FIELD
  send POST artifacts "{\"artifactId\":\"$1\",\"artifactType\":\"AVRO\",\"firstVersion\":$(content "$2")}"
}
update() { # ID FIELD
  send POST "artifacts/$1/versions" "$(content "$2")"
}
# state prints the status and the latest content of every artifact.
state() {
  local id
  for id in order-{1..6}; do
    printf '%s ' "$id"
    curl -sS -o "$work/content" -w '%{http_code} ' \
      "$url/groups/shop/artifacts/$id/versions/branch=latest/content"
    grep -o '"name":"[a-z0-9]*","type":"long"' "$work/content" || echo none
  done
}
answers() {
  state >"$work/state"
  cmp -s "$work/expected" "$work/state"
}
# compare waits, because a registry answers requests, with status 404, before it has replayed its
# journal.
compare() { # WHEN
  until_true registry "$1, the registry answers as before" answers
  same "$1" "$work/expected" "$work/state"
}
records() { # prints the number of records of the journal on disk
  "$binary" log dump --records "$work"/data/broker-0/kafkasql-journal-0/*.log | grep -c '^  record '
}

step "Start the broker and the registry; create, update and delete schemas"
start_heartwood
start_registry
for i in 1 2 3 4; do create "order-$i" "id$i"; done
update order-1 total1
update order-2 total2
send DELETE artifacts/order-3
cat >"$work/expected" <<'EXPECTED'
order-1 200 "name":"total1","type":"long"
order-2 200 "name":"total2","type":"long"
order-3 404 none
order-4 200 "name":"id4","type":"long"
order-5 404 none
order-6 404 none
EXPECTED
compare "after the writes"

step "Restart the broker; the registry goes on"
restart_heartwood
create order-5 id5
sed -i 's/^order-5 .*/order-5 200 "name":"id5","type":"long"/' "$work/expected"
compare "after the restart"

step "Kill the broker; the registry goes on"
kill_heartwood
create order-6 id6
sed -i 's/^order-6 .*/order-6 200 "name":"id6","type":"long"/' "$work/expected"
compare "after kill -9"

step "Clean the journal"
say "records before: $(records)"
clean kafkasql-journal
# Each change has a key of its own, and all nine remain. The record of a start is a tombstone, which
# goes when its retention (5 s) has ended.
removed() {
  clean kafkasql-journal >"$work/clean.log"
  [ "$(records)" = 9 ]
}
until_true heartwood "the tombstones are removed" removed
say "records after: $(records)"
compare "after the clean"

step "Kill the registry; a new one replays the journal"
stop registry KILL
start_registry
compare "after the replay"
