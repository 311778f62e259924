// A checkout in Java: publishes how calls ended to Kafka, and asks Redis whether a channel is blocked.
//
//   mvn -q -f examples/java dependency:copy-dependencies -DoutputDirectory=libs
//   java -cp 'examples/java/libs/*' examples/java/Checkout.java publish OK ALIPAY
//   java -cp 'examples/java/libs/*' examples/java/Checkout.java ask ALIPAY
//
// FUSELINE_KAFKA_BROKERS (127.0.0.1:9092), FUSELINE_KAFKA_TOPIC (fuseline.outcomes), FUSELINE_REDIS_URL, FUSELINE_PREFIX

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

public class Checkout {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String TOPIC = env("FUSELINE_KAFKA_TOPIC", "fuseline.outcomes");

  public static void main(String[] args) throws Exception {
    List<String> words = List.of(args);
    if (words.size() > 2 && words.get(0).equals("publish")) publish(words.get(1), words.subList(2, words.size()));
    else if (words.size() == 2 && words.get(0).equals("ask")) System.out.println(isBlocked(words.get(1)) ? "blocked" : "in use");
    else throw new IllegalArgumentException("publish CODE CHANNEL... | ask CHANNEL");
  }

  /** One outcome per channel named. Any code but OK is a failure. */
  static void publish(String code, List<String> channels) throws Exception {
    // The defaults are what we want: idempotent, acks=all, and the partition by murmur2 of the key, which keeps a channel's order.
    Map<String, Object> settings = Map.of("bootstrap.servers", env("FUSELINE_KAFKA_BROKERS", "127.0.0.1:9092"));
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (String channel : channels) {
        String outcome = JSON.writeValueAsString(Map.of(
            "channel", channel, "success", code.equals("OK"), "durationMs", 120, "code", code, "source", "checkout-java"));
        sent.add(producer.send(new ProducerRecord<>(TOPIC, channel, outcome)));
      }
      // A service would not wait here: publishing is fire and forget.
      for (int i = 0; i < channels.size(); i++) System.out.println(channels.get(i) + " partition " + sent.get(i).get().partition());
    }
  }

  /**
   * A channel is blocked exactly while its key exists. Any Redis client can ask; this is the bare protocol, so that the class path
   * holds Kafka and Jackson alone. When Redis does not answer in time, treat the channel as in use.
   */
  static boolean isBlocked(String channel) throws IOException {
    URI redis = URI.create(env("FUSELINE_REDIS_URL", "redis://127.0.0.1:6379"));
    byte[] key = (env("FUSELINE_PREFIX", "") + "channel_blocked:{" + channel + "}").getBytes(StandardCharsets.UTF_8);
    try (var socket = new Socket(redis.getHost(), redis.getPort() == -1 ? 6379 : redis.getPort())) {
      socket.setSoTimeout(1_000);
      var out = socket.getOutputStream();
      out.write(("*2\r\n$6\r\nEXISTS\r\n$" + key.length + "\r\n").getBytes(StandardCharsets.UTF_8));
      out.write(key);
      out.write("\r\n".getBytes(StandardCharsets.UTF_8));
      String answer = new String(socket.getInputStream().readNBytes(4), StandardCharsets.UTF_8);
      if (!answer.startsWith(":")) throw new IOException("Redis answered " + answer.strip());
      return answer.equals(":1\r\n");
    }
  }

  private static String env(String name, String otherwise) {
    return System.getenv().getOrDefault(name, otherwise);
  }
}
