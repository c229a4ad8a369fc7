#!/usr/bin/env bash
# run.sh counts visits with Kafka Streams, exactly once. The counts must be right after the broker
# was restarted and killed, and after the application has lost its state directory: before and after
# the changelog was cleaned.
# shellcheck source=../lib.bash
. "$(dirname "$0")/../lib.bash"
need curl "Debian's package curl"
need javac "Java 17 or later, Debian's package default-jdk-headless"

step "Install the pinned packages and compile"
jars=$(java_jars "$here/pom.xml")
mkdir -p "$work/classes"
javac -d "$work/classes" -cp "$jars" "$here/PageCounts.java"
java=(java -Dorg.slf4j.simpleLogger.defaultLogLevel=error -XX:+UseSerialGC
  -XX:TieredStopAtLevel=1 -cp "$work/classes:$jars" PageCounts)

start_app() {
  start app "${java[@]}" run "$bootstrap" "$work/state"
  until_true app "the application listens" grep -q '^ready' "$work/app.log"
  read -r _ url < <(grep '^ready' "$work/app.log")
}
# lose_state kills the application and removes its state directory.
lose_state() {
  stop app KILL
  rm -rf "$work/state"
  start_app
}
visits=0
visit() { # COUNT
  "${java[@]}" visit "$bootstrap" "$visits" $((visits + $1))
  visits=$((visits + $1))
}
counted() {
  awk -v n="$visits" 'BEGIN { for (i = 0; i < n; i++) count["page-" i * i % 37]++
    for (page in count) print page, count[page] }' | LC_ALL=C sort >"$work/expected"
  curl -fsS "$url/counts" 2>/dev/null | LC_ALL=C sort >"$work/counts" || return 1
  cmp -s "$work/expected" "$work/counts"
}
compare() { # WHEN
  until_true app "$1, the counts are right" counted
  same "$1" "$work/expected" "$work/counts"
}
restored() { # prints how many records of the changelog were read
  awk '/^restored/ { sum += $2 } END { print sum + 0 }' "$work/app.log"
}

step "Start the broker and the application, and count 3,000 visits"
start_heartwood
visit 3000
start_app
compare "after 3,000 visits"

step "Restart the broker"
restart_heartwood
visit 500
compare "after the restart"

step "Kill the broker"
kill_heartwood
visit 500
compare "after kill -9"

step "The application loses its state, and restores it from the changelog"
for _ in 1 2 3 4 5; do # more transactions, each of which writes the changed counts
  visit 200
  compare "while the application counts"
done
lose_state
compare "after the loss of the state"
before=$(restored)
say "restored from $before records"

step "Clean the changelog; the application loses its state again"
clean page-counts-counts-changelog
lose_state
compare "after the clean"
after=$(restored)
say "restored from $after records"
# One record per page, and the last record of each of the three partitions.
[ "$after" -le $(($(wc -l <"$work/expected") + 3)) ] || fail "the cleaned changelog has $after records"
[ "$after" -lt "$before" ] || fail "the clean removed nothing"

step "The application goes on"
visit 500
compare "after 500 more visits"
