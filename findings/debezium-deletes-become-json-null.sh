#!/usr/bin/env bash
# A connector of Debezium sends two records for a deleted row: an event, and a tombstone, from which
# compaction removes the row. The transformation ExtractNewRecordState unwraps events; its setting
# delete.tombstone.handling.mode=tombstone converts the event to a tombstone and drops the second
# record. One would guess that a record without a value arrives. Its value is null, but it still has
# a schema, and JsonConverter returns no bytes only if both are null: it writes the four bytes "null",
# also with schemas.enable=false. Compaction keeps such a record, so the row is never deleted. Mode
# delete-to-tombstone removes the schema, too.
#
# Versions: io.debezium:debezium-connect-plugins 3.6.3.Final, org.apache.kafka:connect-json 4.3.1
# Source: description of the setting in the transformation's documentation; behaviour seen
# Product: examples/cdc uses delete-to-tombstone.
. "$(dirname "$0")/lib.bash"

cat > "$work/pom.xml" <<'X'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>f</groupId><artifactId>f</artifactId><version>1</version><dependencies>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-connect-plugins</artifactId>
<version>3.6.3.Final</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId>
<version>4.3.1</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId>
<version>4.3.1</version></dependency>
</dependencies></project>
X
mvn -q -B -f "$work/pom.xml" -DoutputDirectory="$work/lib" dependency:copy-dependencies
cat > "$work/Finding.java" <<'J'
import io.debezium.transforms.ExtractNewRecordState;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/** Converts both records of a deleted row as a worker of Kafka Connect does. */
public class Finding {
  static final Schema KEY = SchemaBuilder.struct().name("db.t.Key")
      .field("id", Schema.INT32_SCHEMA).build();
  static final Schema ROW = SchemaBuilder.struct().optional().name("db.t.Value")
      .field("id", Schema.INT32_SCHEMA).build();
  static final Schema SOURCE = SchemaBuilder.struct().name("source")
      .field("ts_ms", Schema.INT64_SCHEMA).build();
  static final Schema EVENT = SchemaBuilder.struct().name("db.t.Envelope").field("before", ROW)
      .field("after", ROW).field("source", SOURCE).field("op", Schema.STRING_SCHEMA)
      .field("ts_ms", Schema.OPTIONAL_INT64_SCHEMA).build();

  public static void main(String[] modes) throws Exception {
    for (String mode : modes) {
      try (var transform = new ExtractNewRecordState<SourceRecord>();
          var json = new JsonConverter()) {
        transform.configure(new HashMap<>(Map.of("delete.tombstone.handling.mode", mode)));
        json.configure(Map.of("schemas.enable", "false"), false);
        Struct key = new Struct(KEY).put("id", 1);
        Struct event = new Struct(EVENT).put("before", new Struct(ROW).put("id", 1))
            .put("source", new Struct(SOURCE).put("ts_ms", 1L)).put("op", "d").put("ts_ms", 1L);
        for (var record : new SourceRecord[] {
            new SourceRecord(null, null, "t", KEY, key, EVENT, event),
            new SourceRecord(null, null, "t", KEY, key, null, null)}) {
          var out = transform.apply(record);
          String text = "dropped";
          if (out != null) {
            byte[] value = json.fromConnectData("t", out.valueSchema(), out.value());
            text = value == null ? "no value" : new String(value, StandardCharsets.UTF_8);
          }
          System.out.println(text);
        }
      }
    }
  }
}
J
cd "$work"
javac -cp 'lib/*' -d . Finding.java
output=$(java -Xmx256m -cp '.:lib/*' Finding tombstone delete-to-tombstone 2> java.log)
same "value of the event, mode tombstone" "$(sed -n 1p <<<"$output")" null
same "tombstone, mode tombstone" "$(sed -n 2p <<<"$output")" dropped
same "value of the event, mode delete-to-tombstone" "$(sed -n 3p <<<"$output")" "no value"
