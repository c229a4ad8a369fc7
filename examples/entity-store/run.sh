#!/usr/bin/env bash
# run.sh runs three entity stores, in Go, Java and Python, on one compacted topic. Each writes,
# overwrites and deletes the same entities; all must answer alike, also after the broker was
# restarted and killed, and after the topic was cleaned and the stores have restored their state.
# shellcheck source=../lib.bash
. "$(dirname "$0")/../lib.bash"
need curl "Debian's package curl"
need go "Go 1.26"

step "Install the pinned packages and build"
jars=$(java_jars "$here/java/pom.xml")
python=$(python_with "$here/python/requirements.txt")
(cd "$root" && CGO_ENABLED=0 go build -o "$work/store-go" ./examples/entity-store/go)

declare -A url
start_stores() {
  local name
  start go "$work/store-go" "$bootstrap" entities
  start java java -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$jars" \
    "$here/java/EntityStore.java" "$bootstrap" entities
  start python "$python" "$here/python/entity_store.py" "$bootstrap" entities
  for name in go java python; do
    until_true "$name" "the store is ready" grep -q '^ready' "$work/$name.log"
    read -r _ url[$name] restored < <(grep '^ready' "$work/$name.log")
    say "the store in $name listens at ${url[$name]}, $restored"
  done
}

put() { # STORE KEY VALUE
  curl -fsS -X PUT --data-binary "$3" "${url[$1]}/entities/$2"
}
delete() { # STORE KEY
  curl -fsS -X DELETE "${url[$1]}/entities/$2"
}
compare() { # WHEN
  local name
  for name in go java python; do
    curl -fsS "${url[$name]}/entities" >"$work/state-$name"
    same "$1, $name" "$work/expected" "$work/state-$name"
  done
}

step "Start the broker and the stores"
start_heartwood
start_stores

step "Write: every store writes, overwrites and deletes the same entities"
stores=(go java python)
: >"$work/expected"
for i in $(seq -w 0 29); do
  for n in 0 1 2; do # the store that writes last differs from entity to entity
    put "${stores[(10#$i + n) % 3]}" "ticket-$i" "version $n of $i"
  done
  if [ $((10#$i % 3)) = 0 ]; then
    delete "${stores[10#$i % 2]}" "ticket-$i"
  else
    echo "ticket-$i version 2 of $i" >>"$work/expected"
  fi
done
compare "after the writes"

step "Restart the broker; the stores go on"
restart_heartwood
put python ticket-01 "written after the restart"
sed -i 's/^ticket-01 .*/ticket-01 written after the restart/' "$work/expected"
compare "after the restart"

step "Kill the broker; the stores go on"
kill_heartwood
delete java ticket-02
sed -i '/^ticket-02 /d' "$work/expected"
put go ticket-03 "returned"
sed -i '3i ticket-03 returned' "$work/expected"
sort -o "$work/expected" "$work/expected"
compare "after kill -9"

step "Clean, until the tombstones are gone too"
for key in deleted-{1..12}; do
  put go "$key" "deleted soon"
  delete python "$key"
done
compare "before the clean"
clean entities
# The retention of a tombstone (5 s) begins with the pass that removes the older records of its key.
# The last record of each of the three partitions remains, even if it is a tombstone.
removed() {
  clean entities >"$work/clean.log"
  [ "$(records)" -le $(($(wc -l <"$work/expected") + 3)) ]
}
records() { # prints the number of records on disk
  "$binary" log dump --records "$work"/data/broker-0/entities-*/*.log | grep -c '^  record '
}
say "records before: $(records)"
until_true heartwood "the tombstones are removed" removed
say "records after: $(records)"
compare "after the clean"

step "Restart the stores: they restore their state from the cleaned topic"
for name in "${stores[@]}"; do stop "$name" KILL; done
start_stores
compare "after the restore"
