import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.io.File;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RaftSnapshotWriter;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.ControllerRegistration;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.SnapshotPath;
import org.apache.kafka.snapshot.Snapshots;

/**
 * What Kafka itself makes of a metadata log: its own readers and MetadataBatchLoader replay it to a MetadataImage.
 *
 * <p>Each argument is a case: files separated by commas, of which the first may be a snapshot, or a folder that holds
 * one; the logs are read from its end on. A case `PATHS>FOLDER@OFFSET` also has Kafka write a snapshot of its image
 * into the folder, as soon as it is replayed up to that offset and no transaction is open. Printed are a line
 * `{"case":...}`, then one line a fact: first those of Raft's own records, in order, then those of the image at the end.
 * With `--records` as the first argument, the records of the image are printed instead of its facts.
 */
public final class Image {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_BATCH = 8 << 20;

    private final PrintWriter out;
    private MetadataImage image = MetadataImage.EMPTY;
    private long lastOffset = -1;
    private int lastEpoch = -1;
    private long lastTimestamp = -1;
    private VoterSet voters;
    private short kraftVersion;
    private Path folder;
    private long snapshotAt = Long.MAX_VALUE;

    private Image(PrintWriter out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintWriter out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 16));
        boolean records = args[0].equals("--records");
        for (String each : Arrays.copyOfRange(args, records ? 1 : 0, args.length)) {
            new Image(out).replay(each, records);
        }
        out.flush();
    }

    private void replay(String each, boolean records) throws Exception {
        print("case", each);
        String[] parts = each.split(">");
        if (parts.length > 1) {
            int at = parts[1].lastIndexOf('@');
            folder = Path.of(parts[1].substring(0, at));
            snapshotAt = Long.parseLong(parts[1].substring(at + 1));
        }
        for (String name : parts[0].split(",")) {
            Path path = Path.of(name);
            if (Files.isDirectory(path)) {
                try (var listed = Files.list(path)) {
                    path = listed.filter(file -> file.toString().endsWith(".checkpoint")).findFirst().orElseThrow();
                }
            }
            if (path.toString().endsWith(".checkpoint")) {
                snapshot(path);
            } else {
                log(path);
            }
        }
        if (records) {
            records();
        } else {
            facts();
        }
    }

    /** Every record that Kafka would write of the image, in any order: nothing of it is left out. */
    private void records() throws Exception {
        RecordListWriter writer = new RecordListWriter();
        image.write(
                writer,
                new ImageWriterOptions.Builder(image)
                        .setEligibleLeaderReplicasEnabled(image.features().isElrEnabled())
                        .build());
        for (ApiMessageAndVersion record : writer.records()) {
            print("fact", "record", "text", record.toString());
        }
    }

    private static RecordsIterator<ApiMessageAndVersion> batches(Path path) throws Exception {
        FileRecords records = FileRecords.open(new File(path.toString()), false);
        return new RecordsIterator<>(
                records, new MetadataRecordSerde(), BufferSupplier.create(), MAX_BATCH, true, new LogContext());
    }

    /** As MetadataLoader.loadSnapshot; Raft's own records stand at the last contained offset, as for KafkaRaftClient. */
    private void snapshot(Path path) throws Exception {
        SnapshotPath parsed = Snapshots.parse(path).orElseThrow();
        OffsetAndEpoch id = parsed.snapshotId();
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        lastOffset = id.offset() - 1;
        lastEpoch = id.epoch();
        try (RecordsIterator<ApiMessageAndVersion> batches = batches(path)) {
            while (batches.hasNext()) {
                Batch<ApiMessageAndVersion> batch = batches.next();
                for (ControlRecord record : batch.controlRecords()) {
                    if (record.message() instanceof SnapshotHeaderRecord header) {
                        lastTimestamp = header.lastContainedLogTimestamp();
                    }
                    control(record.message(), lastOffset, lastEpoch, lastTimestamp);
                }
                for (ApiMessageAndVersion record : batch.records()) {
                    delta.replay(record.message());
                }
            }
        }
        delta.finishSnapshot();
        image = delta.apply(new MetadataProvenance(lastOffset, lastEpoch, lastTimestamp, true));
    }

    /** As MetadataLoader.handleCommit, batch by batch. */
    private void log(Path path) throws Exception {
        MetadataBatchLoader loader =
                new MetadataBatchLoader(
                        new LogContext(),
                        Time.SYSTEM,
                        (message, cause) -> {
                            throw new IllegalStateException(message, cause);
                        },
                        (delta, next, manifest) -> image = next,
                        SupportedConfigChecker.TRUE);
        loader.resetToImage(image);
        try (RecordsIterator<ApiMessageAndVersion> batches = batches(path)) {
            while (batches.hasNext()) {
                Batch<ApiMessageAndVersion> batch = batches.next();
                if (batch.lastOffset() <= lastOffset) {
                    continue;
                }
                lastOffset = batch.lastOffset();
                lastEpoch = batch.epoch();
                lastTimestamp = batch.appendTimestamp();
                long offset = batch.baseOffset();
                for (ControlRecord record : batch.controlRecords()) {
                    control(record.message(), offset++, batch.epoch(), batch.appendTimestamp());
                }
                loader.loadBatch(batch, LeaderAndEpoch.UNKNOWN);
                loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                if (lastOffset >= snapshotAt && image.offset() == lastOffset) {
                    write();
                }
            }
        }
    }

    private void write() {
        snapshotAt = Long.MAX_VALUE;
        OffsetAndEpoch id = new OffsetAndEpoch(lastOffset + 1, lastEpoch);
        RaftSnapshotWriter writer =
                new RaftSnapshotWriter(
                        new RecordsSnapshotWriter.Builder()
                                .setRawSnapshotWriter(FileRawSnapshotWriter.create(folder, id))
                                .setLastContainedLogTimestamp(lastTimestamp)
                                .setTime(Time.SYSTEM)
                                .setMaxBatchSizeBytes(MAX_BATCH)
                                .setKraftVersion(KRaftVersion.fromFeatureLevel(kraftVersion))
                                .setVoterSet(Optional.ofNullable(voters))
                                .build(new MetadataRecordSerde()),
                        1024);
        image.write(
                writer,
                new ImageWriterOptions.Builder(image)
                        .setEligibleLeaderReplicasEnabled(image.features().isElrEnabled())
                        .setLossHandler(loss -> {
                            throw loss;
                        })
                        .build());
        writer.close(true);
    }

    private void control(ApiMessage message, long offset, int epoch, long timestamp) throws Exception {
        if (message instanceof VotersRecord record) {
            voters = VoterSet.fromVotersRecord(record);
            print(
                    "fact", "voters", "offset", offset, "epoch", epoch, "timestamp", timestamp,
                    "voters", voters.voterNodes().stream()
                            .sorted(Comparator.comparingInt(voter -> voter.voterKey().id()))
                            .map(Image::voter)
                            .toList());
        } else if (message instanceof LeaderChangeMessage record) {
            print(
                    "fact", "leader", "offset", offset, "epoch", epoch, "timestamp", timestamp,
                    "leader_id", record.leaderId());
        } else if (message instanceof KRaftVersionRecord record) {
            kraftVersion = record.kRaftVersion();
        }
    }

    private static Map<String, Object> voter(VoterSet.VoterNode voter) {
        List<Object> endpoints = new ArrayList<>();
        voter.listeners()
                .votersRecordEndpoints()
                .forEachRemaining(one -> endpoints.add(List.of(one.name(), one.host(), one.port())));
        return map(
                "id", voter.voterKey().id(), "directory_id", voter.voterKey().directoryId().map(Uuid::toString).orElse(null),
                "endpoints", endpoints);
    }

    private void facts() throws Exception {
        print("fact", "end", "last_offset", lastOffset, "epoch", lastEpoch, "timestamp", lastTimestamp);
        print("fact", "kraft.version", "level", kraftVersion);
        Map<String, Object> levels = new TreeMap<>(image.features().finalizedVersions());
        image.features().metadataVersion().ifPresent(version -> levels.put("metadata.version", version.featureLevel()));
        print("fact", "features", "levels", levels);
        for (BrokerRegistration broker : image.cluster().brokers().values()) {
            print(
                    "fact", "broker", "id", broker.id(), "incarnation_id", broker.incarnationId().toString(),
                    "fenced", broker.fenced(), "in_controlled_shutdown", broker.inControlledShutdown(),
                    "log_dirs", broker.directories().stream().map(Uuid::toString).sorted().toList(),
                    "endpoints", endpoints(broker.listeners().values()),
                    "features", features(broker.supportedFeatures()));
        }
        for (ControllerRegistration controller : image.cluster().controllers().values()) {
            print(
                    "fact", "controller", "id", controller.id(),
                    "incarnation_id", controller.incarnationId().toString(),
                    "endpoints", endpoints(controller.listeners().values()),
                    "features", features(controller.supportedFeatures()));
        }
        for (TopicImage topic : image.topics().topicsById().values()) {
            print("fact", "topic", "id", topic.id().toString(), "name", topic.name());
            for (Map.Entry<Integer, PartitionRegistration> each : topic.partitions().entrySet()) {
                PartitionRegistration partition = each.getValue();
                print(
                        "fact", "partition", "topic_id", topic.id().toString(), "partition", each.getKey(),
                        "replicas", partition.replicas, "isr", partition.isr, "elr", partition.elr,
                        "last_known_elr", partition.lastKnownElr,
                        "directories", Arrays.stream(partition.directories).map(Uuid::toString).toList(),
                        "leader", partition.leader < 0 ? null : partition.leader,
                        "leader_epoch", partition.leaderEpoch, "partition_epoch", partition.partitionEpoch,
                        "recovering", partition.leaderRecoveryState == LeaderRecoveryState.RECOVERING);
            }
        }
    }

    private static List<Object> endpoints(Collection<Endpoint> listeners) {
        return listeners.stream()
                .sorted(Comparator.comparing(Endpoint::listener))
                .map(one -> (Object) Arrays.asList(one.listener(), one.host(), one.port()))
                .toList();
    }

    private static Map<String, Object> features(Map<String, VersionRange> supported) {
        Map<String, Object> made = new TreeMap<>();
        supported.forEach((name, range) -> made.put(name, List.of(range.min(), range.max())));
        return made;
    }

    private static Map<String, Object> map(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            made.put((String) pairs[at], pairs[at + 1]);
        }
        return made;
    }

    private void print(Object... pairs) throws Exception {
        out.println(JSON.writeValueAsString(map(pairs)));
    }
}
