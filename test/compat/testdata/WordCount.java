import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** The word count of wordcount_test.go with Kafka Streams. Arguments: bootstrap, state directory. */
public class WordCount {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "wordcount");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // A stopped instance does not leave its group: the next one waits for the session timeout.
        config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        System.out.printf("{\"step\":\"client\",\"version\":\"kafka-streams %s\"}%n",
            clientsVersion());
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
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
