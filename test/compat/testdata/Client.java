import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** The list of program_test.go, done with Java's clients. Arguments: bootstrap, topic, milliseconds of idling. */
public class Client {
    static final long BEGIN = 1_700_000_000_000L;
    static String bootstrap, topic;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        say("client", "\"version\":" + quote("kafka-clients " + clientsVersion()));
        admin();
        long number = 0;
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            number = produce(codec, number);
        }
        consume(number, Long.parseLong(args[2]));
        beginTransaction();
    }

    static void beginTransaction() {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "transactional.id", topic + "-id");
        String refusal = "";
        long started = System.nanoTime();
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
        } catch (KafkaException e) {
            refusal = e.toString();
        }
        say("transaction", "\"seconds\":" + (System.nanoTime() - started) / 1e9 + ",\"error\":" + quote(refusal));
    }

    static void admin() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            say("list", "\"topics\":" + array(new TreeSet<>(admin.listTopics().names().get())));
            String made = topic + "-made";
            admin.createTopics(List.of(new NewTopic(made, 2, (short) 1)
                .configs(Map.of("cleanup.policy", "compact", "compression.type", "zstd")))).all().get();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, made);
            Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            say("describe", "\"configs\":{" + config.entries().stream()
                .map(e -> quote(e.name()) + ":" + quote(e.value())).collect(Collectors.joining(",")) + "}");
            admin.deleteTopics(List.of(made)).all().get();
            say("deleted", null);
        }
    }

    /** Sends three records with a codec: a key, a null value, no key. Idempotence is Java's default. */
    static long produce(String codec, long number) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "compression.type", codec, "linger.ms", 500);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            String[][] pairs = {{codec + "-key", (codec + " ").repeat(100)}, {codec + "-key", null},
                {null, (codec + " without a key ").repeat(100)}};
            List<Future<?>> sent = new ArrayList<>();
            for (String[] pair : pairs) {
                var record = new ProducerRecord<>(topic, 0, BEGIN + number++ * 1000, pair[0], pair[1]);
                record.headers().add("codec", codec.getBytes(StandardCharsets.UTF_8));
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<?> future : sent) {
                future.get();
            }
        }
        return number;
    }

    static void consume(long number, long idleMs) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "fetch.max.wait.ms", 500, "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            read(consumer, "beginning", number);
            long at = consumer.offsetsForTimes(Map.of(place, BEGIN + 4 * 1000 - 500)).get(place).offset();
            consumer.seek(place, at);
            read(consumer, "timestamp", number - at);
            consumer.seekToEnd(List.of(place));
            consumer.position(place);
            say("idle", null);
            if (!consumer.poll(Duration.ofMillis(idleMs)).isEmpty()) {
                throw new IllegalStateException("end: a record came that nobody sent");
            }
            say("idled", null);
            try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>(topic, 0, BEGIN + number * 1000, "last", "while the consumer waits")).get();
            }
            read(consumer, "end", 1);
        }
    }

    static void read(KafkaConsumer<String, String> consumer, String source, long count) {
        for (; count > 0; ) {
            var records = consumer.poll(Duration.ofSeconds(30));
            if (records.isEmpty()) {
                throw new IllegalStateException(source + ": " + count + " records did not come");
            }
            for (var r : records) {
                List<String> headers = new ArrayList<>();
                r.headers().forEach(h -> headers.add(quote(h.key()) + ":" + quote(h.value() == null ? null : new String(h.value(), StandardCharsets.UTF_8))));
                say("record", "\"source\":" + quote(source) + ",\"offset\":" + r.offset() + ",\"timestamp\":" + r.timestamp() + ",\"key\":" + quote(r.key())
                    + ",\"value\":" + quote(r.value()) + ",\"headers\":{" + String.join(",", headers) + "}");
                count--;
            }
        }
    }

    static void say(String step, String fields) {
        System.out.println("{\"step\":" + quote(step) + (fields == null ? "" : "," + fields) + "}");
    }

    static String array(Collection<String> all) {
        return all.stream().map(Client::quote).collect(Collectors.joining(",", "[", "]"));
    }

    static String quote(String s) {
        return s == null ? "null" : "\"" + s.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    /** The version of kafka-clients. Its class AppInfoParser is in another package since 4.4. */
    static String clientsVersion() throws java.io.IOException {
        Properties version = new Properties();
        try (var resource = KafkaException.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(resource);
        }
        return version.getProperty("version");
    }
}
