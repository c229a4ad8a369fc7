// Makes, and reads, the record batches of Kafka's own Java code that vectors_test.go compares with ours. To make them anew:
//
//   cd internal/record/testdata/java && java -cp "$KAFKA_LIB/*" Vectors.java write .
//
// KAFKA_LIB is the libs folder of a Kafka 4.4 distribution. Each NAME.bin is one batch, NAME.txt what Kafka reads in it.
// "read FILE" prints the text of all batches in a file.
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.compress.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.internals.BufferSupplier;

public class Vectors {
    static final long NOW = 1_700_000_000_000L;
    static Path dir;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("read")) {
            System.out.print(text(ByteBuffer.wrap(Files.readAllBytes(Path.of(args[1])))));
            return;
        }
        dir = Path.of(args[1]);
        codecs();
        shapes();
        producers();
        cleaned();
    }

    // codecs: each codec at its lowest, default and highest level.
    static void codecs() throws Exception {
        Map<String, Compression> all = new LinkedHashMap<>();
        all.put("none", Compression.NONE);
        all.put("snappy", Compression.snappy().build());
        for (int level : new int[] {1, 6, 9}) all.put("gzip-" + level, Compression.gzip().level(level).build());
        all.put("gzip-default", Compression.gzip().build());
        for (int level : new int[] {1, 2, 9, 12, 17}) all.put("lz4-" + level, Compression.lz4().level(level).build());
        for (int level : new int[] {-131072, -5, 1, 3, 9, 22}) all.put("zstd-" + level, Compression.zstd().level(level).build());
        for (Map.Entry<String, Compression> e : all.entrySet())
            write(e.getKey(), MemoryRecords.withRecords(e.getValue(), tickets(30)));
        // More than one block of each codec: 32 KiB for snappy, 64 KiB for lz4, 128 KiB for zstd.
        SimpleRecord[] large = new SimpleRecord[300];
        byte[] value = new byte[500];
        Arrays.fill(value, (byte) 'x');
        for (int i = 0; i < large.length; i++) large[i] = new SimpleRecord(NOW + i, ("k" + i).getBytes(), value);
        write("large-gzip", MemoryRecords.withRecords(Compression.gzip().build(), large));
        write("large-snappy", MemoryRecords.withRecords(Compression.snappy().build(), large));
        write("large-lz4", MemoryRecords.withRecords(Compression.lz4().build(), large));
        write("large-zstd", MemoryRecords.withRecords(Compression.zstd().build(), large));
    }

    static SimpleRecord[] tickets(int count) {
        SimpleRecord[] all = new SimpleRecord[count];
        for (int i = 0; i < count; i++)
            all[i] = new SimpleRecord(NOW + 7 * i, ("ticket-" + i).getBytes(),
                String.format("{\"id\":%d,\"subject\":\"ticket %d\",\"status\":\"open\"}", i, i * 31 % 17).getBytes());
        return all;
    }

    // shapes: nulls, empties, headers and timestamps of every kind.
    static void shapes() throws Exception {
        byte[] k = "k".getBytes(), v = "v".getBytes(), none = new byte[0];
        write("nulls", MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(NOW, k, null), new SimpleRecord(NOW, null, v),
            new SimpleRecord(NOW, (byte[]) null, null), new SimpleRecord(NOW, none, none), new SimpleRecord(NOW, none, null)));
        Header[] headers = {new RecordHeader("b", v), new RecordHeader("a", none), new RecordHeader("b", (byte[]) null),
            new RecordHeader("", v), new RecordHeader("\u00fc\u4e16", v)};
        write("headers", MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(NOW, k, v, headers), new SimpleRecord(NOW, k, null, headers)));
        write("timestamps-descend", MemoryRecords.withRecords(Compression.lz4().build(), new SimpleRecord(NOW, k, v),
            new SimpleRecord(NOW - 100_000, k, v), new SimpleRecord(NOW + 5, k, v), new SimpleRecord(0, k, v)));
        write("no-timestamps", MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(-1, k, v), new SimpleRecord(-1, k, v)));
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        MemoryRecordsBuilder b = MemoryRecords.builder(buffer, (byte) 2, Compression.zstd().build(), TimestampType.LOG_APPEND_TIME, 500L, NOW + 99, 4);
        b.append(new SimpleRecord(NOW, k, v));
        b.append(new SimpleRecord(NOW + 1, k, v));
        write("log-append-time", b.build());
    }

    // producers: idempotent and transactional batches, sequences that wrap, the markers of transactions.
    static void producers() throws Exception {
        write("idempotent", MemoryRecords.withIdempotentRecords(Compression.NONE, 4711L, (short) 3, 17, tickets(3)));
        write("sequence-wraps", MemoryRecords.withIdempotentRecords(Compression.NONE, 4711L, (short) 3, Integer.MAX_VALUE - 1, tickets(4)));
        write("transactional", MemoryRecords.withTransactionalRecords(Compression.gzip().build(), 4712L, (short) 0, 0, tickets(3)));
        write("control-abort", MemoryRecords.withEndTransactionMarker(70L, NOW, 5, 4712L, (short) 0, new EndTransactionMarker(ControlRecordType.ABORT, 8)));
        write("control-commit", MemoryRecords.withEndTransactionMarker(71L, NOW, 5, 4712L, (short) 0, new EndTransactionMarker(ControlRecordType.COMMIT, 9)));
    }

    // cleaned: what the log cleaner makes of batches (MemoryRecords.filterTo).
    static void cleaned() throws Exception {
        SimpleRecord[] all = tickets(6);
        all[2] = new SimpleRecord(NOW + 1, "gone".getBytes(), null);
        MemoryRecords data = MemoryRecords.withTransactionalRecords(100L, Compression.NONE, 5L, (short) 1, 10, 2, all);
        write("cleaned-some", filter(data, 1, 3));
        write("cleaned-horizon", filter(data, 2, 3));
        write("cleaned-empty", filter(data));
        MemoryRecords packed = MemoryRecords.withIdempotentRecords(100L, Compression.zstd().level(19).build(), 5L, (short) 1, 10, 2, all);
        write("cleaned-zstd", filter(packed, 0, 5));
        write("cleaned-zstd-empty", filter(packed));
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        MemoryRecordsBuilder b = MemoryRecords.builder(buffer, (byte) 2, Compression.NONE, TimestampType.LOG_APPEND_TIME, 500L, NOW + 99, 4);
        for (SimpleRecord r : all) b.append(r);
        write("cleaned-log-append-time", filter(b.build(), 1, 4));
    }

    // filter keeps the records at these places, as the cleaner does at NOW with delete.retention.ms=1000.
    static MemoryRecords filter(MemoryRecords from, int... keep) {
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(NOW, 1000L) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }
            protected boolean shouldRetainRecord(RecordBatch batch, org.apache.kafka.common.record.internal.Record record) {
                for (int at : keep) if (record.offset() == batch.baseOffset() + at) return true;
                return false;
            }
        };
        ByteBuffer out = ByteBuffer.allocate(1 << 16);
        from.filterTo(filter, out, BufferSupplier.NO_CACHING, Integer.MAX_VALUE);
        out.flip();
        return MemoryRecords.readableRecords(out);
    }

    static void write(String name, MemoryRecords records) throws Exception {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(dir.resolve(name + ".bin"), bytes);
        Files.writeString(dir.resolve(name + ".txt"), text(ByteBuffer.wrap(bytes)));
    }

    static String text(ByteBuffer buffer) {
        StringBuilder out = new StringBuilder();
        for (MutableRecordBatch b : MemoryRecords.readableRecords(buffer).batches()) {
            b.ensureValid();
            out.append(String.format("batch %d..%d epoch %d %s %s max %d producer %d/%d seq %d..%d txn %b control %b horizon %d count %d%n",
                b.baseOffset(), b.lastOffset(), b.partitionLeaderEpoch(), b.compressionType(), b.timestampType(), b.maxTimestamp(),
                b.producerId(), b.producerEpoch(), b.baseSequence(), b.lastSequence(), b.isTransactional(), b.isControlBatch(),
                b.deleteHorizonMs().orElse(-1L), b.countOrNull()));
            for (org.apache.kafka.common.record.internal.Record r : b) {
                out.append(String.format("%d %d %s %s", r.offset(), r.timestamp(), hex(r.key()), hex(r.value())));
                for (Header h : r.headers())
                    out.append(String.format(" %s:%s", hex(ByteBuffer.wrap(h.key().getBytes(StandardCharsets.UTF_8))), hex(h.value() == null ? null : ByteBuffer.wrap(h.value()))));
                out.append("\n");
            }
        }
        return out.toString();
    }

    // hex shows null as -, and long runs of one byte by their number.
    static String hex(ByteBuffer value) {
        if (value == null) return "-";
        byte[] bytes = new byte[value.remaining()];
        value.duplicate().get(bytes);
        if (bytes.length > 100) return bytes.length + "x" + HexFormat.of().formatHex(bytes, 0, 1);
        return "'" + HexFormat.of().formatHex(bytes);
    }
}
