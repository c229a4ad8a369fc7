import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An entity store in Java. It keeps entities in a compacted topic and serves them over HTTP on
 * loopback. Its state is what the topic contains: a write is a record, a deletion is a tombstone,
 * and a start reads the topic up to its end.
 */
public final class EntityStore {
    private final String topic;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final List<TopicPartition> partitions;
    private final TreeMap<String, String> entities = new TreeMap<>();

    private EntityStore(String bootstrap, String topic) {
        this.topic = topic;
        consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap),
            new StringDeserializer(), new StringDeserializer());
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "acks", "all",
            "enable.idempotence", true), new StringSerializer(), new StringSerializer());
        partitions = consumer.partitionsFor(topic).stream()
            .map(p -> new TopicPartition(topic, p.partition())).toList();
        consumer.assign(partitions); // without a group: every service reads everything
        consumer.seekToBeginning(partitions);
    }

    /** Reads the topic up to its present end. A start and a read of the state are the same. */
    private void catchUp() {
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
            consumer.poll(Duration.ofMillis(100)).forEach(this::apply);
        }
    }

    /**
     * Reads the topic while no request does. A store that has read a record must read its tombstone
     * before the tombstone's retention ends, or it keeps the entity forever.
     */
    private synchronized void follow() {
        try {
            catchUp();
        } catch (RuntimeException e) {
            System.err.println("failed to follow the topic: " + e);
        }
    }

    private void apply(ConsumerRecord<String, String> record) {
        if (record.value() == null) {
            entities.remove(record.key());
        } else {
            entities.put(record.key(), record.value());
        }
    }

    /**
     * Sends a record and returns when all in-sync replicas have it. A null value is a tombstone.
     * The state changes when catchUp reads the record, never here: the topic decides on the order
     * of the writes of several services.
     */
    private void write(String key, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, key, value)).get();
    }

    private synchronized void handle(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath().substring("/entities".length());
        String key = path.isEmpty() ? null : path.substring(1);
        try {
            answer(exchange, key);
        } catch (Exception e) {
            respond(exchange, 503, e + "\n");
        }
    }

    private void answer(HttpExchange exchange, String key) throws Exception {
        switch (exchange.getRequestMethod()) {
            case "GET" -> {
                catchUp();
                if (key == null) {
                    StringBuilder lines = new StringBuilder();
                    entities.forEach((k, v) -> lines.append(k + " " + v + "\n"));
                    respond(exchange, 200, lines.toString());
                } else {
                    String value = entities.get(key);
                    respond(exchange, value == null ? 404 : 200, value == null ? "" : value);
                }
            }
            case "PUT" -> {
                String value = new String(exchange.getRequestBody().readAllBytes(), "UTF-8");
                if (value.isEmpty()) {
                    respond(exchange, 400, "an entity needs a value\n");
                    return;
                }
                write(key, value);
                respond(exchange, 204, "");
            }
            case "DELETE" -> {
                write(key, null);
                respond(exchange, 204, "");
            }
            default -> respond(exchange, 405, "");
        }
    }

    private static void respond(HttpExchange exchange, int status, String text)
        throws IOException {
        byte[] body = text.getBytes("UTF-8");
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    public static void main(String[] args) throws Exception {
        EntityStore store = new EntityStore(args[0], args[1]);
        store.catchUp();
        HttpServer server = HttpServer.create(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/entities", store::handle);
        server.start();
        // The interval must be much shorter than the topic's tombstone retention.
        Executors.newSingleThreadScheduledExecutor()
            .scheduleWithFixedDelay(store::follow, 1, 1, TimeUnit.SECONDS);
        System.out.printf("ready http://127.0.0.1:%d restored=%d%n",
            server.getAddress().getPort(), store.entities.size());
    }
}
