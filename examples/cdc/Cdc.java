import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import io.debezium.engine.spi.OffsetCommitPolicy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Change data capture from PostgreSQL into compacted topics, by Debezium's engine without a Kafka
 * Connect cluster. `run` captures changes until it is stopped; `rows` prints the rows that a topic
 * contains; `written` prints how many records were ever written to topics.
 */
public final class Cdc {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "run" -> run(args[1], args[2], args[3]);
            case "rows" -> rows(args[1], args[2]);
            case "written" -> written(args[1], List.of(args).subList(2, args.length));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void run(String bootstrap, String databasePort, String user) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true),
            new StringSerializer(), new StringSerializer())) {
            DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(settings(bootstrap, databasePort, user))
                .using(Cdc::ended)
                // Not the setting offset.commit.policy: the engine calls a constructor with
                // properties, which this policy does not have.
                .using(OffsetCommitPolicy.always())
                .notifying((batch, committer) -> write(producer, batch, committer))
                .build();
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                try {
                    engine.close(); // writes the last offset
                    main.join();
                } catch (Exception e) {
                    System.out.println("failed to close the engine: " + e);
                }
            }));
            engine.run();
        }
    }

    private static void ended(boolean success, String message, Throwable error) {
        System.out.println("ended success=" + success + " " + message);
        if (error != null) {
            error.printStackTrace();
        }
    }

    private static Properties settings(String bootstrap, String databasePort, String user) {
        Properties p = new Properties();
        p.putAll(Map.of(
            "name", "shop",
            "connector.class", "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name", "pgoutput",
            "slot.name", "shop",
            "publication.autocreate.mode", "filtered",
            "table.include.list", "public.customers,public.orders",
            "topic.prefix", "shop",
            "poll.interval.ms", "100"));
        p.putAll(Map.of(
            "database.hostname", "127.0.0.1",
            "database.port", databasePort,
            "database.user", user,
            "database.password", "",
            "database.dbname", "postgres"));
        // The engine continues at the offset in this topic.
        p.putAll(Map.of(
            "bootstrap.servers", bootstrap,
            "offset.storage", "org.apache.kafka.connect.storage.KafkaOffsetBackingStore",
            "offset.storage.topic", "shop-offsets",
            "offset.storage.partitions", "1",
            "offset.storage.replication.factor", "1"));
        // A record contains the row, not the envelope with the row before and after the change. A
        // deleted row becomes a tombstone. With the default "tombstone" instead of
        // "delete-to-tombstone", and JSON without schemas, its value would be the text "null",
        // which no cleaner removes.
        p.putAll(Map.of(
            "transforms", "unwrap",
            "transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode", "delete-to-tombstone",
            "converter.schemas.enable", "false"));
        return p;
    }

    /** Writes a batch, and only then lets the engine store the offset: no change is lost. */
    private static void write(KafkaProducer<String, String> producer,
        List<ChangeEvent<String, String>> batch,
        DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
        throws InterruptedException {
        List<Future<?>> sent = new ArrayList<>();
        for (ChangeEvent<String, String> event : batch) {
            sent.add(producer.send(
                new ProducerRecord<>(event.destination(), event.key(), event.value())));
        }
        for (int i = 0; i < sent.size(); i++) {
            try {
                sent.get(i).get();
            } catch (java.util.concurrent.ExecutionException e) {
                throw new IllegalStateException("failed to write a change", e);
            }
            committer.markProcessed(batch.get(i));
        }
        committer.markBatchFinished();
        System.out.println("written changes=" + batch.size());
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap),
            new StringDeserializer(), new StringDeserializer());
    }

    private static List<TopicPartition> partitions(KafkaConsumer<?, ?> consumer, String topic) {
        return consumer.partitionsFor(topic).stream()
            .map(p -> new TopicPartition(topic, p.partition())).toList();
    }

    private static void rows(String bootstrap, String topic) {
        Map<String, String> rows = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap)) {
            List<TopicPartition> partitions = partitions(consumer, topic);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofMillis(100)).forEach(r -> rows.put(r.key(), r.value()));
            }
        }
        rows.values().stream().filter(v -> v != null).forEach(System.out::println);
    }

    private static void written(String bootstrap, List<String> topics) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap)) {
            System.out.println(topics.stream().flatMap(t -> consumer.endOffsets(
                partitions(consumer, t)).values().stream()).mapToLong(Long::longValue).sum());
        }
    }
}
