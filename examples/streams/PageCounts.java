import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Counts visits per page with Kafka Streams, exactly once. `run` counts and serves the counts over
 * HTTP on loopback; `visit` produces visits.
 */
public final class PageCounts {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "run" -> run(args[1], args[2]);
            case "visit" -> visit(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void run(String bootstrap, String stateDir) throws Exception {
        Properties config = new Properties();
        config.putAll(Map.of(
            StreamsConfig.APPLICATION_ID_CONFIG, "page-counts",
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            StreamsConfig.STATE_DIR_CONFIG, stateDir,
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 1,
            StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest",
            // A killed instance leaves its group when its session ends.
            StreamsConfig.consumerPrefix("session.timeout.ms"), 6000));
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("visits", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"));
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setGlobalStateRestoreListener(new Restored());
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        HttpServer server = HttpServer.create(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/counts", exchange -> {
            int status = 200;
            byte[] body;
            try {
                body = counts(streams).getBytes();
            } catch (RuntimeException e) { // while the state is restored
                status = 503;
                body = (e + "\n").getBytes();
            }
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        System.out.println("ready http://127.0.0.1:" + server.getAddress().getPort());
    }

    private static String counts(KafkaStreams streams) {
        Map<String, Long> counts = new TreeMap<>();
        try (var all = streams.store(StoreQueryParameters.fromNameAndType("counts",
            QueryableStoreTypes.<String, Long>keyValueStore())).all()) {
            all.forEachRemaining(entry -> counts.put(entry.key, entry.value));
        }
        StringBuilder lines = new StringBuilder();
        counts.forEach((page, count) -> lines.append(page + " " + count + "\n"));
        return lines.toString();
    }

    /** Prints how many records of the changelog were read to restore a partition of the store. */
    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            System.out.println("restored " + total + " records of " + partition);
        }
    }

    /** Produces visits: visit i is to page i * i mod 37. */
    private static void visit(String bootstrap, int from, int to) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true),
            new StringSerializer(), new StringSerializer())) {
            for (int i = from; i < to; i++) {
                producer.send(new ProducerRecord<>("visits", "page-" + i * i % 37, "visit " + i));
            }
        }
    }
}
