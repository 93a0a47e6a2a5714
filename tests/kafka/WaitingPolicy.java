import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** A policy for new topics that waits while the file in the system property `waits` exists, as a broken one may. */
public class WaitingPolicy implements CreateTopicPolicy {
    @Override public void configure(Map<String, ?> configs) {}

    @Override public void validate(RequestMetadata request) {
        while (Files.exists(Path.of(System.getProperty("waits")))) {
            try {
                Thread.sleep(100);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    @Override public void close() {}
}
