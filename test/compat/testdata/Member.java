import java.time.Duration;
import java.util.*;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group of the consumer protocol, as consumers_test.go has it. Arguments: bootstrap, group, instance ("": none), topic, or an
 * expression that begins with ^. It says what it is assigned and what it reads, commits that, and leaves when its standard input ends.
 */
public class Member {
    static final Set<TopicPartition> owned = new HashSet<>();

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.protocol", "consumer");
        p.put("group.id", args[1]);
        if (!args[2].isEmpty()) {
            p.put("group.instance.id", args[2]);
        }
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("metadata.max.age.ms", "1000");
        System.out.println("{\"step\":\"client\",\"version\":\"kafka-clients " + clientsVersion() + "\"}");
        Thread waits = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) { }
            stop = true;
        });
        waits.setDaemon(true);
        waits.start();
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> more) { owned.addAll(more); say(); }
            public void onPartitionsRevoked(Collection<TopicPartition> gone) { owned.removeAll(gone); say(); }
        };
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            if (args[3].startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(args[3]), listener);
            } else {
                consumer.subscribe(List.of(args[3]), listener);
            }
            while (!stop) {
                ConsumerRecords<String, String> records;
                try {
                    records = consumer.poll(Duration.ofMillis(200));
                } catch (RuntimeException e) { // the source launcher fails on stack traces of other threads
                    System.err.println(e);
                    return;
                }
                for (ConsumerRecord<String, String> r : records) {
                    System.out.println("{\"step\":\"record\",\"source\":\"" + r.topic() + "-" + r.partition() + "\",\"offset\":" + r.offset() + "}");
                }
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (CommitFailedException e) { } // another member owns the partitions now
                }
            }
        }
    }

    static volatile boolean stop;

    static void say() {
        System.out.println("{\"step\":\"assigned\",\"topics\":[" + owned.stream().map(o -> "\"" + o + "\"").sorted()
            .collect(Collectors.joining(",")) + "]}");
    }

    /** The version of kafka-clients. Its class AppInfoParser is in another package since 4.4. */
    static String clientsVersion() throws java.io.IOException {
        Properties version = new Properties();
        try (var resource = org.apache.kafka.common.KafkaException.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(resource);
        }
        return version.getProperty("version");
    }
}
