import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.internals.BatchBuilder;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;

/**
 * Writes large metadata files with Kafka's own classes, and replays one with Kafka's own MetadataDelta and MetadataImage.
 *
 * <p>Arguments: `snapshot FOLDER TOPICS PARTITIONS`, `log FOLDER TOPICS PARTITIONS CHANGES` or `image FILE`.
 */
public final class MetadataFiles {
    private static final int BROKERS = 30;
    private static final int REPLICAS = 3;
    private static final int RECORDS_PER_BATCH = 1024;
    private static final int MOST_BATCH_BYTES = 8 << 20;
    private static final int EPOCH = 42;
    private static final long BEGINNING_MS = 1_790_000_000_000L;

    private final Random random = new Random(42);
    private final Uuid[] directories = new Uuid[BROKERS];

    /** Receives one batch of records. */
    private interface Sink {
        void append(List<ApiMessageAndVersion> records) throws IOException;
    }

    public static void main(String[] arguments) throws IOException {
        switch (arguments[0]) {
            case "image" -> replay(new File(arguments[1]));
            case "snapshot" -> new MetadataFiles().snapshot(arguments);
            default -> new MetadataFiles().log(arguments);
        }
    }

    private void snapshot(String[] arguments) throws IOException {
        RecordsSnapshotWriter<ApiMessageAndVersion> writer = new RecordsSnapshotWriter.Builder()
                .setRawSnapshotWriter(FileRawSnapshotWriter.create(Path.of(arguments[1]), new OffsetAndEpoch(9_000_001, EPOCH)))
                .setTime(Time.SYSTEM)
                .setLastContainedLogTimestamp(BEGINNING_MS)
                .setMaxBatchSizeBytes(MOST_BATCH_BYTES)
                .setKraftVersion(KRaftVersion.KRAFT_VERSION_0)
                .build(new MetadataRecordSerde());
        topics(Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]), writer::append);
        writer.freeze();
        writer.close();
    }

    private void log(String[] arguments) throws IOException {
        int topics = Integer.parseInt(arguments[2]);
        int partitions = Integer.parseInt(arguments[3]);
        Path path = Path.of(arguments[1], "00000000000000000000.log");
        ByteBuffer buffer = ByteBuffer.allocate(MOST_BATCH_BYTES);
        long[] offset = {0};
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            Sink sink = records -> {
                BatchBuilder<ApiMessageAndVersion> batch = new BatchBuilder<>(
                        buffer.clear(), new MetadataRecordSerde(), Compression.NONE, offset[0],
                        BEGINNING_MS + offset[0], EPOCH, MOST_BATCH_BYTES);
                ObjectSerializationCache cache = new ObjectSerializationCache();
                for (ApiMessageAndVersion record : records) {
                    batch.appendRecord(record, cache);
                }
                ByteBuffer bytes = batch.build().buffer().duplicate();
                while (bytes.hasRemaining()) {
                    file.write(bytes);
                }
                offset[0] += records.size();
            };
            List<PartitionRecord> all = topics(topics, partitions, sink);
            changes(all, Integer.parseInt(arguments[4]), sink);
        }
    }

    /** Appends topics with their partitions and configurations; returns the partitions. */
    private List<PartitionRecord> topics(int topics, int partitions, Sink sink) throws IOException {
        for (int broker = 0; broker < BROKERS; broker++) {
            directories[broker] = uuid();
        }
        List<ApiMessageAndVersion> batch = new ArrayList<>();
        List<PartitionRecord> all = new ArrayList<>();
        short level = MetadataVersion.LATEST_PRODUCTION.featureLevel();
        batch.add(record(new FeatureLevelRecord().setName("metadata.version").setFeatureLevel(level), 0));
        for (int topic = 0; topic < topics; topic++) {
            Uuid id = uuid();
            String name = "orders.events.v1-" + topic;
            batch.add(record(new TopicRecord().setName(name).setTopicId(id), 0));
            for (int number = 0; number < partitions; number++) {
                PartitionRecord partition = partition(id, number);
                all.add(partition);
                batch.add(record(partition, 2));
            }
            if (topic % 3 == 0) {
                batch.add(record(new ConfigRecord().setResourceType((byte) 2).setResourceName(name)
                        .setName("retention.ms").setValue("86400000"), 0));
            }
            if (batch.size() >= RECORDS_PER_BATCH - partitions) {
                sink.append(batch);
                batch = new ArrayList<>();
            }
        }
        if (!batch.isEmpty()) {
            sink.append(batch);
        }
        return all;
    }

    /** Appends rolling restarts: leaders move from a broker and the broker leaves the ISR, then it returns. */
    private void changes(List<PartitionRecord> all, int count, Sink sink) throws IOException {
        List<ApiMessageAndVersion> batch = new ArrayList<>();
        int size = 1 + random.nextInt(80);
        for (int at = 0; at < count; at++) {
            PartitionRecord of = all.get(random.nextInt(all.size()));
            PartitionChangeRecord change =
                    new PartitionChangeRecord().setTopicId(of.topicId()).setPartitionId(of.partitionId());
            List<Integer> replicas = of.replicas();
            int kind = random.nextInt(20);
            if (kind < 9) {
                change.setIsr(replicas.subList(1, REPLICAS)).setLeader(replicas.get(1));
            } else if (kind < 18) {
                change.setIsr(replicas);
            } else if (kind == 18) {
                change.setLeader(replicas.get(0));
            } else {
                change.setIsr(List.of(replicas.get(0))).setEligibleLeaderReplicas(replicas.subList(1, 2));
            }
            batch.add(record(change, 2));
            if (batch.size() == size) {
                sink.append(batch);
                batch = new ArrayList<>();
                size = 1 + random.nextInt(80);
            }
        }
        if (!batch.isEmpty()) {
            sink.append(batch);
        }
    }

    private PartitionRecord partition(Uuid topic, int number) {
        int first = random.nextInt(BROKERS);
        int step = 1 + random.nextInt(9);
        List<Integer> replicas = List.of(first, (first + step) % BROKERS, (first + 2 * step) % BROKERS);
        int epoch = random.nextInt(60);
        return new PartitionRecord()
                .setTopicId(topic)
                .setPartitionId(number)
                .setReplicas(replicas)
                .setIsr(random.nextInt(100) < 4 ? replicas.subList(0, REPLICAS - 1) : replicas)
                .setLeader(first)
                .setLeaderEpoch(epoch)
                .setPartitionEpoch(epoch + random.nextInt(60))
                .setDirectories(replicas.stream().map(broker -> directories[broker]).toList());
    }

    private static ApiMessageAndVersion record(ApiMessage message, int version) {
        return new ApiMessageAndVersion(message, (short) version);
    }

    private Uuid uuid() {
        return new Uuid(random.nextLong(), random.nextLong());
    }

    private static void replay(File file) throws IOException {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        long records = 0;
        try (FileRecords content = FileRecords.open(file, false);
                RecordsIterator<ApiMessageAndVersion> batches = new RecordsIterator<>(
                        content, new MetadataRecordSerde(), BufferSupplier.create(), MOST_BATCH_BYTES, true,
                        new LogContext())) {
            List<ApiMessage> transaction = null;
            while (batches.hasNext()) {
                for (ApiMessageAndVersion record : batches.next().records()) {
                    records++;
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
        MetadataImage image = delta.apply(new MetadataProvenance(1, 1, 1, true));
        long partitions = image.topics().topicsById().values().stream().mapToLong(each -> each.partitions().size()).sum();
        System.out.printf("%d records, %d partitions%n", records, partitions);
    }
}
