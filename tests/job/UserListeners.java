import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/** Listeners as a user's monitoring has them: each appends a line for every event to a file in LISTENED. */
public class UserListeners {
    static void append(String file, String line) {
        try {
            Path path = Path.of(System.getenv("LISTENED"), file);
            Files.writeString(path, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    /** For spark.extraListeners. */
    public static class Jobs extends SparkListener {
        @Override
        public void onJobEnd(SparkListenerJobEnd ended) {
            append("jobs", String.valueOf(ended.jobId()));
        }
    }

    /** For spark.sql.streaming.streamingQueryListeners. */
    public static class Queries extends StreamingQueryListener {
        @Override
        public void onQueryStarted(QueryStartedEvent started) {}

        @Override
        public void onQueryProgress(QueryProgressEvent made) {
            append("queries", made.progress().name() + " " + made.progress().numInputRows());
        }

        @Override
        public void onQueryTerminated(QueryTerminatedEvent ended) {}
    }
}
