import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Starts a transactional producer and prints the error as a line of JSON. */
public class Transactional {
    public static void main(String[] args) {
        long begin = System.nanoTime();
        String error = null;
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", args[0], "transactional.id", "compat"),
            new StringSerializer(), new StringSerializer());
        try {
            producer.initTransactions();
        } catch (RuntimeException failure) {
            error = failure.getClass().getSimpleName() + ": " + failure.getMessage();
        }
        System.out.printf("{\"error\": %s, \"seconds\": %.3f}%n",
            error == null ? "null" : '"' + error + '"', (System.nanoTime() - begin) / 1e9);
        System.exit(0);
    }
}
