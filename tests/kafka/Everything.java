import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Writes logs with every metadata and control record that the Kafka on the class path knows, in every version, filled
 * in several ways, with Kafka's own serialisers; and prints what Kafka itself makes of them.
 *
 * <p>Arguments: a log for all that this Kafka's kafka-dump-log can read, a log for every control record, then files to
 * print as well. The second log is printed with Kafka's JSON converters, a line `converted: JSON` a record, because
 * kafka-dump-log reads every LeaderChange as version 0, and before Kafka 4.1 prints no more than its name.
 */
public final class Everything {
    /** How a record is filled; after these, each of its tagged fields alone. */
    private enum Filling {
        /** As Kafka makes it: no tagged field is written. */
        FRESH,
        /** Every field without a tag. */
        UNTAGGED,
        /** Every field. */
        FULL,
        /** Every field: the smallest numbers, odd strings, tagged fields that nobody knows. */
        LEAST,
        /** Every field: the largest numbers, long strings, many elements. */
        MOST,
        /** Every field: zero, false, empty. */
        ZERO,
        /** Null in every field that may be null. */
        NULL
    }

    private static final List<String> CONTROL =
            List.of(
                    "LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord",
                    "VotersRecord");
    private static final int FIRST_CONTROL_TYPE = 2;
    private static final long BEGAN = 1_790_000_000_000L;
    private static final double[] DOUBLES = {
        0.1, 1e300, Double.MIN_VALUE, -0.0, 1024.0, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY
    };

    private int count;

    /** A log as it grows. */
    private static final class Segment {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private long offset;
    }

    public static void main(String[] args) throws Exception {
        Segment printable = new Segment();
        Segment control = new Segment();
        new Everything().write(printable, control);
        Files.write(Path.of(args[0]), printable.bytes.toByteArray());
        Files.write(Path.of(args[1]), control.bytes.toByteArray());
        List<String> files = new ArrayList<>(List.of(args));
        files.remove(1);
        tool().getMethod("main", String[].class)
                .invoke(null, (Object) new String[] {"--cluster-metadata-decoder", "--files", String.join(",", files)});
    }

    private static Class<?> tool() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.tools.DumpLogSegments");
        } catch (ClassNotFoundException older) {
            return Class.forName("kafka.tools.DumpLogSegments");
        }
    }

    private void write(Segment printable, Segment control) throws Exception {
        for (int number = 0; number < CONTROL.size(); number++) {
            Class<?> known;
            try {
                known = Class.forName("org.apache.kafka.common.message." + CONTROL.get(number));
            } catch (ClassNotFoundException unknown) {
                continue;
            }
            Method convert = Class.forName(known.getName() + "JsonConverter").getMethod("write", known, short.class);
            ApiMessage fresh = (ApiMessage) known.getDeclaredConstructor().newInstance();
            for (short version = fresh.lowestSupportedVersion(); version <= fresh.highestSupportedVersion(); version++) {
                ByteBuffer key = ByteBuffer.allocate(4);
                key.putShort((short) 0).putShort((short) (number + FIRST_CONTROL_TYPE)).flip();
                List<ByteBuffer> values = new ArrayList<>();
                for (ApiMessage message : filled(known, version)) {
                    member(known, "version").set(message, version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer value = ByteBuffer.allocate(message.size(cache, version));
                    message.write(new ByteBufferAccessor(value), cache, version);
                    values.add(value.flip());
                    System.out.println("converted: " + convert.invoke(null, message, version));
                }
                batch(control, key, values);
                if (version == 0) {
                    batch(printable, key, values);
                }
            }
        }
        MetadataRecordSerde serde = new MetadataRecordSerde();
        for (MetadataRecordType type : MetadataRecordType.values()) {
            ApiMessage fresh = type.newMetadataRecord();
            for (short version = fresh.lowestSupportedVersion(); version <= fresh.highestSupportedVersion(); version++) {
                List<ByteBuffer> values = new ArrayList<>();
                for (ApiMessage message : filled(fresh.getClass(), version)) {
                    ApiMessageAndVersion both = new ApiMessageAndVersion(message, version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer value = ByteBuffer.allocate(serde.recordSize(both, cache));
                    serde.write(both, cache, new ByteBufferAccessor(value));
                    values.add(value.flip());
                }
                batch(printable, null, values);
            }
        }
    }

    /** One batch as Kafka's own writer of headers and records makes it; with a key, a control batch. */
    private static void batch(Segment segment, ByteBuffer key, List<ByteBuffer> values) throws Exception {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        Class<?> record = recordClass("DefaultRecord");
        Method writeTo =
                record.getMethod(
                        "writeTo",
                        DataOutputStream.class, int.class, long.class, ByteBuffer.class, ByteBuffer.class, Header[].class);
        for (int delta = 0; delta < values.size(); delta++) {
            ByteBuffer copy = key == null ? null : key.duplicate();
            writeTo.invoke(
                    null, new DataOutputStream(body), delta, delta * 70L, copy, values.get(delta).duplicate(), new Header[0]);
        }
        int overhead = 61;
        ByteBuffer whole = ByteBuffer.allocate(overhead + body.size());
        whole.position(overhead);
        whole.put(body.toByteArray()).position(0);
        Method writeHeader =
                Arrays.stream(recordClass("DefaultRecordBatch").getMethods())
                        .filter(method -> method.getName().equals("writeHeader"))
                        .findFirst()
                        .orElseThrow();
        Class<?>[] types = writeHeader.getParameterTypes();
        long began = BEGAN + segment.offset * 500;
        writeHeader.invoke(
                null, whole, segment.offset, values.size() - 1, whole.capacity(), (byte) 2, constant(types[5], "NONE"),
                constant(types[6], "CREATE_TIME"), began, began + (values.size() - 1) * 70L, -1L, (short) -1, -1, false,
                key != null, false, 1 + (int) (segment.offset / 100), values.size());
        segment.bytes.write(whole.array());
        segment.offset += values.size();
    }

    private static Class<?> recordClass(String name) throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.record.internal." + name);
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.record." + name);
        }
    }

    private static Object constant(Class<?> enumClass, String name) {
        return Arrays.stream(enumClass.getEnumConstants())
                .filter(value -> value.toString().equalsIgnoreCase(name) || ((Enum<?>) value).name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private List<ApiMessage> filled(Class<?> javaClass, short version) throws Exception {
        Schema schema = ((Schema[]) javaClass.getField("SCHEMAS").get(null))[version];
        List<ApiMessage> messages = new ArrayList<>();
        for (Filling filling : Filling.values()) {
            ApiMessage message = (ApiMessage) javaClass.getDeclaredConstructor().newInstance();
            fill(message, schema, filling, null);
            if (filling == Filling.LEAST) {
                message.unknownTaggedFields().add(new RawTaggedField(4000, new byte[] {1, 2, 3}));
            }
            messages.add(message);
        }
        for (Integer tag : tagged(schema).keySet()) {
            ApiMessage message = (ApiMessage) javaClass.getDeclaredConstructor().newInstance();
            fill(message, schema, Filling.FULL, tag);
            messages.add(message);
        }
        return messages;
    }

    /** Fill a struct; of the tagged fields only one where that is named. */
    private void fill(Object struct, Schema schema, Filling filling, Integer only) throws Exception {
        if (filling == Filling.FRESH) {
            return;
        }
        for (BoundField bound : schema.fields()) {
            if (!(bound.def.type instanceof TaggedFields)) {
                set(struct, bound.def, filling);
            }
        }
        if (filling != Filling.UNTAGGED) {
            for (Map.Entry<Integer, Field> entry : tagged(schema).entrySet()) {
                if (only == null || only.equals(entry.getKey())) {
                    set(struct, entry.getValue(), filling);
                }
            }
        }
    }

    private void set(Object struct, Field field, Filling filling) throws Exception {
        java.lang.reflect.Field member = member(struct.getClass(), field.name);
        member.set(struct, value(field.type, member.getType(), member.getGenericType(), filling));
    }

    private Object value(
            org.apache.kafka.common.protocol.types.Type type, Class<?> javaClass, Type javaType, Filling filling)
            throws Exception {
        if (type.isNullable() && filling == Filling.NULL) {
            return null;
        }
        if (type instanceof CompactArrayOf array) {
            return elements(array.arrayElementType().orElseThrow(), javaClass, javaType, filling);
        }
        if (type instanceof Schema schema) {
            Object struct = javaClass.getDeclaredConstructor().newInstance();
            fill(struct, schema, filling, null);
            return struct;
        }
        String name = type.toString().toLowerCase(java.util.Locale.ROOT);
        if (name.contains("string")) {
            return string(filling);
        }
        if (name.contains("bytes")) {
            byte[] bytes = string(filling).getBytes(java.nio.charset.StandardCharsets.UTF_16);
            return filling == Filling.ZERO ? new byte[0] : bytes;
        }
        if (name.equals("uuid")) {
            return filling == Filling.ZERO ? Uuid.ZERO_UUID : new Uuid(0x1234_5678_9abc_def0L * ++count, -count);
        }
        if (name.equals("boolean")) {
            return filling == Filling.FULL || filling == Filling.MOST;
        }
        return number(name, javaClass, filling);
    }

    private Object elements(
            org.apache.kafka.common.protocol.types.Type type, Class<?> javaClass, Type javaType, Filling filling)
            throws Exception {
        Type element = element(javaType);
        @SuppressWarnings("unchecked")
        Collection<Object> collection =
                javaClass == List.class
                        ? new ArrayList<>()
                        : (Collection<Object>) javaClass.getDeclaredConstructor().newInstance();
        int size = filling == Filling.ZERO ? 0 : filling != Filling.MOST ? 2 : type instanceof Schema ? 5 : 130;
        for (int number = 0; number < size; number++) {
            // Elements that have a key must differ in it.
            Filling each = type instanceof Schema && number > 0 ? Filling.FULL : filling;
            collection.add(value(type, (Class<?>) element, element, each));
        }
        return collection;
    }

    private String string(Filling filling) {
        return switch (filling) {
            case ZERO -> "";
            case LEAST -> "\"quoted\" \\ back\u0001\n\t</x> ключ é 😀 \u2028" + ++count;
            case MOST -> "long ".repeat(60) + ++count;
            default -> "text-" + ++count;
        };
    }

    private Object number(String name, Class<?> javaClass, Filling filling) {
        if (name.equals("float64")) {
            return filling == Filling.ZERO ? 0.0 : DOUBLES[++count % DOUBLES.length];
        }
        boolean unsigned = name.startsWith("u");
        int bits = Integer.parseInt(name.replaceAll("\\D", "")) - (unsigned ? 0 : 1);
        long most = bits == 63 ? Long.MAX_VALUE : (1L << bits) - 1;
        long number =
                switch (filling) {
                    case ZERO -> 0;
                    case LEAST -> unsigned ? 0 : -most - 1;
                    case MOST -> most;
                    default -> 1 + ++count % 100;
                };
        if (javaClass == byte.class || javaClass == Byte.class) {
            return (byte) number;
        }
        if (javaClass == short.class || javaClass == Short.class) {
            return (short) number;
        }
        if (javaClass == int.class || javaClass == Integer.class) {
            return (int) number;
        }
        return number;
    }

    /** The element's class: of a List's parameter, or of an ImplicitLinkedHashMultiCollection's. */
    private static Type element(Type javaType) {
        if (javaType instanceof ParameterizedType generic) {
            return generic.getActualTypeArguments()[0];
        }
        return element(((Class<?>) javaType).getGenericSuperclass());
    }

    @SuppressWarnings("unchecked")
    private static Map<Integer, Field> tagged(Schema schema) throws Exception {
        Map<Integer, Field> all = new TreeMap<>();
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
                fields.setAccessible(true);
                all.putAll((Map<Integer, Field>) fields.get(tagged));
            }
        }
        return all;
    }

    private static java.lang.reflect.Field member(Class<?> javaClass, String snake) {
        String wanted = snake.replace("_", "");
        java.lang.reflect.Field found =
                Arrays.stream(javaClass.getDeclaredFields())
                        .filter(member -> member.getName().equalsIgnoreCase(wanted))
                        .findFirst()
                        .orElseThrow(() -> new IllegalStateException(javaClass + " has no member for " + snake));
        found.setAccessible(true);
        return found;
    }
}
