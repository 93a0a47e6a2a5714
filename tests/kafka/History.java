import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.internals.BatchBuilder;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Writes a metadata log with Kafka's own record classes and batch writers: a history by a seed, in which everything that
 * an image holds changes in every way the records can say. It is wilder than a controller's: leaders, ISR, ELR and
 * recovery state of a partition are drawn one by one, and so are the fields that a change leaves out.
 *
 * <p>Arguments: the file, a seed, at least how many data records. Prints how many there are of each type.
 */
public final class History {
    private static final int BROKERS = 12;
    private static final short NEWEST = MetadataVersion.LATEST_PRODUCTION.featureLevel();
    private static final List<Uuid> RESERVED = List.of(new Uuid(0, 0), new Uuid(0, 1), new Uuid(0, 2));
    private static final long BEGAN = 1_790_000_000_000L;

    /** What the writer must know to write nothing that Kafka refuses. */
    private record Known(List<Uuid> topics, Map<Uuid, String> names, Map<Uuid, Integer> partitions, Map<Integer, Long> brokers) {
        Known copy() {
            return new Known(
                    new ArrayList<>(topics), new HashMap<>(names), new HashMap<>(partitions), new TreeMap<>(brokers));
        }
    }

    private final Random random;
    private final OutputStream file;
    private final ByteBuffer buffer = ByteBuffer.allocate(8 << 20);
    private final Map<String, Integer> written = new TreeMap<>();
    private final List<String> free = new ArrayList<>();
    private Known known = new Known(new ArrayList<>(), new HashMap<>(), new HashMap<>(), new TreeMap<>());
    private List<ApiMessageAndVersion> batch = new ArrayList<>();
    private int batchSize = 1;
    private long offset;
    private int epoch;
    private long now = BEGAN;
    private int named;
    private int records;

    private History(String path, long seed) throws Exception {
        file = new FileOutputStream(path);
        random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        History history = new History(args[0], Long.parseLong(args[1]));
        history.write(Integer.parseInt(args[2]));
        history.file.close();
        System.out.println(history.written);
    }

    private void write(int wanted) throws Exception {
        newLeader();
        control(builder -> builder.appendKRaftVersionMessage(
                now, new KRaftVersionRecord().setVersion((short) 0).setKRaftVersion((short) 1)));
        control(builder -> builder.appendVotersMessage(now, voters(3)));
        add(new BeginTransactionRecord().setName("Bootstrap records"), 0);
        feature("metadata.version", NEWEST - 1);
        feature("metadata.version", NEWEST);
        feature("eligible.leader.replicas.version", 1);
        add(new EndTransactionRecord(), 0);
        for (int id = 0; id < BROKERS; id++) {
            registerBroker(100 + id);
        }
        while (records < wanted) {
            if (known.topics.isEmpty() || random.nextInt(60) == 0) {
                transaction();
            } else if (random.nextInt(400) == 0) {
                rare();
            } else {
                step();
            }
        }
        flush();
    }

    /** Several steps that count together, or not at all; the batches need not end where the transaction does. */
    private void transaction() throws Exception {
        boolean aborted = random.nextInt(3) == 0;
        Known before = known.copy();
        add(new BeginTransactionRecord().setName(random.nextBoolean() ? "of " + offset : null), 0);
        for (int steps = random.nextInt(30); steps >= 0; steps--) {
            step();
        }
        createTopic();
        if (aborted) {
            add(new AbortTransactionRecord().setReason(random.nextBoolean() ? "for a test" : null), 0);
            // Kafka's MetadataBatchLoader drops what was aborted when the batch ends: no controller puts more into it.
            flush();
            known = before;
        } else {
            add(new EndTransactionRecord(), 0);
        }
    }

    private void rare() throws Exception {
        flush();
        now += 1_000 + random.nextInt(60_000);
        switch (random.nextInt(3)) {
            case 0 -> newLeader();
            case 1 -> control(builder -> builder.appendVotersMessage(now, voters(1 + random.nextInt(5))));
            default -> {
                newLeader();
                control(builder -> builder.appendVotersMessage(now, voters(1 + random.nextInt(5))));
            }
        }
    }

    private void step() throws Exception {
        int dice = random.nextInt(100);
        if (known.topics.isEmpty() || dice < 4) {
            createTopic();
        } else if (dice < 6) {
            removeTopic();
        } else if (dice < 7) {
            String name = random.nextInt(40) == 0 ? "" : known.names.get(topic());
            add(new ClearElrRecord().setTopicName(name), 0);
        } else if (dice < 9) {
            Uuid topic = topic();
            add(partition(topic, random.nextInt(known.partitions.get(topic))), 2);
        } else if (dice < 20) {
            broker();
        } else if (dice < 22) {
            controller();
        } else if (dice < 24) {
            feature("group.version", random.nextInt(2));
        } else if (dice < 26) {
            add(new ProducerIdsRecord().setBrokerId(100).setBrokerEpoch(1).setNextProducerId(1000L * (1 + records)), 0);
        } else if (dice < 30) {
            add(new NoOpRecord(), 0);
        } else {
            changePartition();
        }
    }

    private void createTopic() throws Exception {
        Uuid id = uuid();
        String name = free.isEmpty() || random.nextBoolean() ? "topic-" + named++ : free.remove(random.nextInt(free.size()));
        if (known.names.containsValue(name)) {
            name = "topic-" + named++;
        }
        add(new TopicRecord().setName(name).setTopicId(id), 0);
        int count = 1 + random.nextInt(8);
        for (int number = 0; number < count; number++) {
            add(partition(id, number), 2);
        }
        known.topics.add(id);
        known.names.put(id, name);
        known.partitions.put(id, count);
    }

    private void removeTopic() throws Exception {
        int at = random.nextInt(known.topics.size());
        Uuid id = known.topics.get(at);
        Collections.swap(known.topics, at, known.topics.size() - 1);
        known.topics.remove(known.topics.size() - 1);
        free.add(known.names.remove(id));
        known.partitions.remove(id);
        add(new RemoveTopicRecord().setTopicId(id), 0);
    }

    private PartitionRecord partition(Uuid topic, int number) {
        List<Integer> replicas = nodes(1 + random.nextInt(4));
        return new PartitionRecord()
                .setTopicId(topic)
                .setPartitionId(number)
                .setReplicas(replicas)
                .setIsr(some(replicas))
                .setDirectories(directories(replicas))
                .setEligibleLeaderReplicas(random.nextInt(3) == 0 ? some(replicas) : null)
                .setLastKnownElr(random.nextInt(3) == 0 ? some(replicas) : null)
                .setLeader(random.nextInt(8) == 0 ? -1 : replicas.get(0))
                .setLeaderEpoch(random.nextInt(50))
                .setPartitionEpoch(random.nextInt(90))
                .setLeaderRecoveryState((byte) (random.nextInt(20) == 0 ? 1 : 0));
    }

    /** Any of the fields; a reassignment begun or ended, an election of any kind, an ISR or an ELR that changed. */
    private void changePartition() throws Exception {
        Uuid topic = topic();
        List<Integer> nodes = nodes(1 + random.nextInt(4));
        PartitionChangeRecord change =
                new PartitionChangeRecord().setTopicId(topic).setPartitionId(random.nextInt(known.partitions.get(topic)));
        boolean reassigned = random.nextInt(10) == 0;
        // Who names replicas must name their directories.
        int version = reassigned ? 1 + random.nextInt(2) : random.nextInt(3);
        if (random.nextInt(2) == 0) {
            change.setIsr(some(nodes));
        }
        switch (random.nextInt(4)) {
            case 0 -> change.setLeader(nodes.get(0));
            case 1 -> change.setLeader(random.nextBoolean() ? -1 : nodes.get(0));
            default -> { }
        }
        if (reassigned) {
            change.setReplicas(nodes).setAddingReplicas(some(nodes)).setRemovingReplicas(some(nodes));
            change.setDirectories(directories(nodes));
        }
        if (random.nextInt(6) == 0) {
            change.setLeaderRecoveryState((byte) (random.nextInt(8) == 0 ? 1 : 0));
        }
        if (version == 2 && random.nextBoolean()) {
            change.setEligibleLeaderReplicas(some(nodes));
        }
        if (version == 2 && random.nextBoolean()) {
            change.setLastKnownElr(some(nodes));
        }
        add(change, version);
    }

    private void broker() throws Exception {
        int id = 100 + random.nextInt(BROKERS);
        Long brokerEpoch = known.brokers.get(id);
        if (brokerEpoch == null || random.nextInt(8) == 0) {
            registerBroker(id);
            return;
        }
        switch (random.nextInt(6)) {
            case 0 -> add(new FenceBrokerRecord().setId(id).setEpoch(brokerEpoch), 0);
            case 1 -> add(new UnfenceBrokerRecord().setId(id).setEpoch(brokerEpoch), 0);
            case 2 -> {
                known.brokers.remove(id);
                add(new UnregisterBrokerRecord().setBrokerId(id).setBrokerEpoch(brokerEpoch), 0);
            }
            default -> add(
                    new BrokerRegistrationChangeRecord()
                            .setBrokerId(id)
                            .setBrokerEpoch(brokerEpoch)
                            .setFenced((byte) (random.nextInt(3) - 1))
                            .setInControlledShutdown((byte) random.nextInt(2))
                            .setLogDirs(random.nextInt(4) == 0 ? logDirs(id) : List.of()),
                    2);
        }
    }

    private void registerBroker(int id) throws Exception {
        long brokerEpoch = 10 + records;
        RegisterBrokerRecord.BrokerEndpointCollection listeners = new RegisterBrokerRecord.BrokerEndpointCollection();
        for (String name : random.nextBoolean() ? List.of("INTERNAL", "EXTERNAL") : List.of("INTERNAL")) {
            listeners.add(new RegisterBrokerRecord.BrokerEndpoint().setName(name).setHost(host(id)).setPort(port()));
        }
        RegisterBrokerRecord.BrokerFeatureCollection features = new RegisterBrokerRecord.BrokerFeatureCollection();
        features.add(
                new RegisterBrokerRecord.BrokerFeature()
                        .setName("metadata.version")
                        .setMinSupportedVersion((short) 7)
                        .setMaxSupportedVersion((short) (NEWEST - random.nextInt(3))));
        known.brokers.put(id, brokerEpoch);
        add(
                new RegisterBrokerRecord()
                        .setBrokerId(id)
                        .setBrokerEpoch(brokerEpoch)
                        .setIncarnationId(uuid())
                        .setEndPoints(listeners)
                        .setFeatures(features)
                        .setFenced(random.nextBoolean())
                        .setInControlledShutdown(random.nextInt(4) == 0)
                        .setLogDirs(logDirs(id)),
                3);
    }

    private void controller() throws Exception {
        int id = 1 + random.nextInt(5);
        if (random.nextInt(4) == 0) {
            add(new UnregisterControllerRecord().setControllerId(id), 0);
            return;
        }
        RegisterControllerRecord.ControllerEndpointCollection listeners =
                new RegisterControllerRecord.ControllerEndpointCollection();
        listeners.add(
                new RegisterControllerRecord.ControllerEndpoint().setName("CONTROLLER").setHost(host(id)).setPort(port()));
        RegisterControllerRecord.ControllerFeatureCollection features =
                new RegisterControllerRecord.ControllerFeatureCollection();
        features.add(
                new RegisterControllerRecord.ControllerFeature()
                        .setName("kraft.version")
                        .setMinSupportedVersion((short) 0)
                        .setMaxSupportedVersion((short) random.nextInt(2)));
        add(
                new RegisterControllerRecord()
                        .setControllerId(id)
                        .setIncarnationId(uuid())
                        .setEndPoints(listeners)
                        .setFeatures(features),
                0);
    }

    private void feature(String name, int level) throws Exception {
        add(new FeatureLevelRecord().setName(name).setFeatureLevel((short) level), 0);
    }

    private void newLeader() throws Exception {
        epoch += 1 + random.nextInt(3);
        int leader = 1 + random.nextInt(5);
        LeaderChangeMessage message = new LeaderChangeMessage().setVersion((short) 0).setLeaderId(leader);
        control(builder -> builder.appendLeaderChangeMessage(now, message));
    }

    private VotersRecord voters(int size) {
        VotersRecord record = new VotersRecord().setVersion((short) 0);
        for (int id = 1; id <= size; id++) {
            VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
            endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost(host(id)).setPort(port()));
            record.voters().add(
                    new VotersRecord.Voter()
                            .setVoterId(id)
                            .setVoterDirectoryId(uuid())
                            .setEndpoints(endpoints)
                            .setKRaftVersionFeature(
                                    new VotersRecord.KRaftVersionFeature()
                                            .setMinSupportedVersion((short) 0)
                                            .setMaxSupportedVersion((short) 1)));
        }
        return record;
    }

    private void add(ApiMessage message, int version) throws Exception {
        written.merge(MetadataRecordType.fromId(message.apiKey()).name(), 1, Integer::sum);
        batch.add(new ApiMessageAndVersion(message, (short) version));
        records++;
        if (batch.size() >= batchSize) {
            flush();
        }
    }

    private void flush() throws Exception {
        batchSize = random.nextInt(3) == 0 ? 1 : 1 + random.nextInt(120);
        if (batch.isEmpty()) {
            return;
        }
        now += random.nextInt(700);
        buffer.clear();
        ObjectSerializationCache cache = new ObjectSerializationCache();
        BatchBuilder<ApiMessageAndVersion> builder =
                new BatchBuilder<>(
                        buffer, new MetadataRecordSerde(), Compression.NONE, offset, now, epoch, buffer.capacity());
        for (ApiMessageAndVersion record : batch) {
            builder.appendRecord(record, cache);
        }
        append(builder.build(), batch.size());
        batch = new ArrayList<>();
    }

    private void control(Consumer<MemoryRecordsBuilder> append) throws Exception {
        flush();
        MemoryRecordsBuilder builder =
                new MemoryRecordsBuilder(
                        ByteBuffer.allocate(4096), RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
                        TimestampType.CREATE_TIME, offset, now, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                        RecordBatch.NO_SEQUENCE, false, true, epoch, 4096);
        append.accept(builder);
        append(builder.build(), 1);
    }

    private void append(MemoryRecords made, int count) throws Exception {
        ByteBuffer bytes = made.buffer().duplicate();
        file.write(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
        offset += count;
    }

    private Uuid topic() {
        return known.topics.get(random.nextInt(known.topics.size()));
    }

    private List<Integer> nodes(int count) {
        List<Integer> all = new ArrayList<>();
        for (int id = 0; id < BROKERS; id++) {
            all.add(100 + id);
        }
        Collections.shuffle(all, random);
        return all.subList(0, count);
    }

    private List<Integer> some(List<Integer> nodes) {
        return nodes.subList(0, random.nextInt(nodes.size() + 1));
    }

    /** One of each broker's directories, or an id that Kafka reserves: not yet assigned, or lost. */
    private List<Uuid> directories(List<Integer> nodes) {
        return nodes.stream().map(node -> random.nextInt(5) == 0 ? RESERVED.get(random.nextInt(3)) : logDir(node)).toList();
    }

    private List<Uuid> logDirs(int id) {
        return List.of(logDir(id), logDir(id)).stream().distinct().toList();
    }

    private Uuid logDir(int id) {
        return new Uuid(id, 100 + random.nextInt(4));
    }

    private String host(int id) {
        return "node-" + id + ".rack-" + random.nextInt(3) + ".example";
    }

    private int port() {
        return 1024 + random.nextInt(60_000);
    }

    private Uuid uuid() {
        return new Uuid(random.nextLong(), random.nextLong() & Long.MAX_VALUE | 1);
    }
}
