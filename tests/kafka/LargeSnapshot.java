import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;

/**
 * Writes the snapshot of a large cluster with Kafka's own classes, for controllers that exist: their voters are in it.
 *
 * <p>Arguments: the metadata log's directory; how many topics; how many partitions each; a seed; the voters as
 * ID@HOST:PORT:DIRECTORY_ID, separated by commas; how many partitions to print. Prints one JSON object a line: the
 * counts, then partitions all of whose replicas are in sync.
 */
public final class LargeSnapshot {
    private static final int BROKERS = 30;
    private static final int REPLICAS = 3;
    private static final int RECORDS_PER_BATCH = 1024;
    private static final int RECOVERING = 100;
    private static final int EPOCH = 42;
    private static final short METADATA_VERSION = MetadataVersion.LATEST_PRODUCTION.featureLevel();

    private final Random random;
    private final RecordsSnapshotWriter<ApiMessageAndVersion> writer;
    private final Uuid[] directories = new Uuid[BROKERS];
    private List<ApiMessageAndVersion> batch = new ArrayList<>();
    private long records;

    private LargeSnapshot(Path folder, long endOffset, long seed, String voters) {
        random = new Random(seed);
        writer = new RecordsSnapshotWriter.Builder()
                .setRawSnapshotWriter(FileRawSnapshotWriter.create(folder, new OffsetAndEpoch(endOffset, EPOCH)))
                .setTime(Time.SYSTEM)
                .setLastContainedLogTimestamp(Time.SYSTEM.milliseconds())
                .setMaxBatchSizeBytes(8 << 20)
                .setKraftVersion(KRaftVersion.KRAFT_VERSION_1)
                .setVoterSet(Optional.of(VoterSet.fromVotersRecord(votersRecord(voters))))
                .build(new MetadataRecordSerde());
        Arrays.setAll(directories, broker -> uuid());
    }

    public static void main(String[] arguments) {
        int topics = Integer.parseInt(arguments[1]);
        int partitions = Integer.parseInt(arguments[2]);
        LargeSnapshot snapshot = new LargeSnapshot(
                Path.of(arguments[0]), 3L * topics * partitions + 1, Long.parseLong(arguments[3]), arguments[4]);
        snapshot.write(topics, partitions, Integer.parseInt(arguments[5]));
    }

    private void write(int topics, int partitions, int printed) {
        feature("metadata.version", METADATA_VERSION);
        feature("eligible.leader.replicas.version", 1);
        feature("group.version", 1);
        feature("transaction.version", 2);
        for (int id = 0; id < BROKERS; id++) {
            add(broker(id), MetadataVersion.LATEST_PRODUCTION.registerBrokerRecordVersion());
        }
        List<String> lines = new ArrayList<>();
        int every = Math.max(1, topics * partitions / printed);
        int between = Math.max(2, topics * partitions / RECOVERING);
        int recovering = 0;
        for (int topic = 0; topic < topics; topic++) {
            Uuid id = uuid();
            String name = "orders.events-" + topic;
            add(new TopicRecord().setName(name).setTopicId(id), 0);
            for (int partition = 0; partition < partitions; partition++) {
                int number = topic * partitions + partition;
                PartitionRecord record = partition(id, partition);
                if (number % between == between / 2) {
                    int last = record.replicas().get(REPLICAS - 1);
                    record.setIsr(List.of(last)).setLeader(last).setLeaderRecoveryState((byte) 1);
                    recovering++;
                } else if (number % every == 0 && lines.size() < printed) {
                    lines.add(line(record));
                } else if (random.nextInt(100) < 3) {
                    record.setIsr(record.replicas().subList(0, REPLICAS - 1));
                }
                add(record, 2);
            }
            if (topic % 4 == 0) {
                add(config((byte) 2, name, "retention.ms", "86400000"), 0);
            }
        }
        add(config((byte) 4, "", "min.insync.replicas", "2"), 0);
        flush();
        writer.freeze();
        writer.close();
        System.out.printf(
                "{\"topics\": %d, \"partitions\": %d, \"records\": %d, \"recovering\": %d}%n",
                topics, topics * partitions, records, recovering);
        lines.forEach(System.out::println);
    }

    private PartitionRecord partition(Uuid topic, int number) {
        int first = random.nextInt(BROKERS);
        int step = 1 + random.nextInt(9);
        List<Integer> replicas = List.of(first, (first + step) % BROKERS, (first + 2 * step) % BROKERS);
        int epoch = (int) Math.min(5000, Math.abs(random.nextGaussian()) * 40);
        return new PartitionRecord()
                .setTopicId(topic)
                .setPartitionId(number)
                .setReplicas(replicas)
                .setIsr(replicas)
                .setLeader(first)
                .setLeaderEpoch(epoch)
                .setPartitionEpoch(epoch + random.nextInt(60))
                .setDirectories(replicas.stream().map(broker -> directories[broker]).toList());
    }

    private RegisterBrokerRecord broker(int id) {
        RegisterBrokerRecord broker = new RegisterBrokerRecord()
                .setBrokerId(id)
                .setIncarnationId(uuid())
                .setBrokerEpoch(brokerEpoch(id))
                .setRack("rack-" + id % REPLICAS)
                .setFenced(false)
                .setLogDirs(List.of(directories[id]));
        broker.endPoints().add(new RegisterBrokerRecord.BrokerEndpoint()
                .setName("PLAINTEXT").setHost("127.0.0.1").setPort(20_000 + id));
        feature(broker, "metadata.version", 7, METADATA_VERSION);
        feature(broker, "kraft.version", 0, 1);
        feature(broker, "eligible.leader.replicas.version", 0, 1);
        feature(broker, "group.version", 0, 1);
        feature(broker, "transaction.version", 0, 2);
        return broker;
    }

    private static long brokerEpoch(int id) {
        return 100 + id;
    }

    private static void feature(RegisterBrokerRecord broker, String name, int lowest, int highest) {
        broker.features().add(new RegisterBrokerRecord.BrokerFeature()
                .setName(name).setMinSupportedVersion((short) lowest).setMaxSupportedVersion((short) highest));
    }

    private void feature(String name, int level) {
        add(new FeatureLevelRecord().setName(name).setFeatureLevel((short) level), 0);
    }

    private static ConfigRecord config(byte type, String resource, String name, String value) {
        return new ConfigRecord().setResourceType(type).setResourceName(resource).setName(name).setValue(value);
    }

    private static VotersRecord votersRecord(String voters) {
        VotersRecord record = new VotersRecord().setVersion((short) 0);
        for (String voter : voters.split(",")) {
            String[] parts = voter.split("[@:]");
            VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
            endpoints.add(new VotersRecord.Endpoint()
                    .setName("CONTROLLER").setHost(parts[1]).setPort(Integer.parseInt(parts[2])));
            record.voters().add(new VotersRecord.Voter()
                    .setVoterId(Integer.parseInt(parts[0]))
                    .setVoterDirectoryId(Uuid.fromString(parts[3]))
                    .setEndpoints(endpoints)
                    .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                            .setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1)));
        }
        return record;
    }

    private static String line(PartitionRecord record) {
        return String.format(
                "{\"topic_id\": \"%s\", \"partition\": %d, \"replicas\": %s, \"leader_epoch\": %d, "
                        + "\"partition_epoch\": %d, \"broker_epoch\": %d}",
                record.topicId(), record.partitionId(), record.replicas(), record.leaderEpoch(),
                record.partitionEpoch(), brokerEpoch(record.leader()));
    }

    private Uuid uuid() {
        // The fixed bits are those of a random UUID; the text of such an id never begins with a dash here.
        return new Uuid(
                random.nextLong() & 0x7fffffffffff0fffL | 0x4000L, random.nextLong() & 0x3fffffffffffffffL | 1L << 63);
    }

    private void add(ApiMessage record, int version) {
        batch.add(new ApiMessageAndVersion(record, (short) version));
        records++;
        if (batch.size() == RECORDS_PER_BATCH) {
            flush();
        }
    }

    private void flush() {
        if (!batch.isEmpty()) {
            writer.append(batch);
            batch = new ArrayList<>();
        }
    }
}
