import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Replays a metadata file with Kafka's own MetadataDelta and MetadataImage. The argument: a log or a snapshot. */
public final class ImageReplay {
    public static void main(String[] arguments) throws IOException {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        try (FileRecords content = FileRecords.open(new File(arguments[0]), false);
                RecordsIterator<ApiMessageAndVersion> batches = new RecordsIterator<>(
                        content, new MetadataRecordSerde(), BufferSupplier.create(), 8 << 20, true, new LogContext())) {
            List<ApiMessage> transaction = null;
            while (batches.hasNext()) {
                for (ApiMessageAndVersion record : batches.next().records()) {
                    ApiMessage message = record.message();
                    if (message instanceof BeginTransactionRecord) {
                        transaction = new ArrayList<>();
                    } else if (message instanceof AbortTransactionRecord) {
                        transaction = null;
                    } else if (message instanceof EndTransactionRecord) {
                        transaction.forEach(delta::replay);
                        transaction = null;
                    } else if (transaction != null) {
                        transaction.add(message);
                    } else {
                        delta.replay(message);
                    }
                }
            }
        }
        System.out.println(delta.apply(new MetadataProvenance(1, 1, 1, true)).topics().topicsById().size() + " topics");
    }
}
