import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Sends outcomes as a Java service would, once with each codec: {@code java -cp 'libs/*' Producer.java <brokers> <topic>}. */
public class Producer {
  static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

  public static void main(String[] args) throws Exception {
    for (String codec : CODECS) {
      Properties settings = new Properties();
      settings.put("bootstrap.servers", args[0]);
      settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
      settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
      settings.put("compression.type", codec);
      // Many records in one batch, so that there is something to compress.
      settings.put("linger.ms", "50");
      settings.put("batch.size", "262144");
      try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
        for (int n = 0; n < 2000; n++) {
          String channel = codec + "-微信支付";
          String value = "{\"channel\":\"" + channel + "\",\"success\":" + (n % 3 != 0) + ",\"durationMs\":" + n + "}";
          producer.send(new ProducerRecord<>(args[1], channel, value));
        }
        producer.flush();
      }
    }
    System.out.println("sent");
  }
}
