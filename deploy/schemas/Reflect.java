import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.types.ArrayOf;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Writes, as JSON on standard output, how every metadata record and every KRaft control record is laid out, read by
 * reflection from the Kafka on the class path.
 *
 * <p>Field order, types and tags are those of each generated class's SCHEMAS; defaults are the values of a new instance.
 */
public final class Reflect {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** The types of KRaft's control records (org.apache.kafka.common.record ControlRecordType). */
    private static final Map<Integer, ApiMessage> CONTROL =
            new TreeMap<>(
                    Map.of(
                            2, new LeaderChangeMessage(),
                            3, new SnapshotHeaderRecord(),
                            4, new SnapshotFooterRecord(),
                            5, new KRaftVersionRecord(),
                            6, new VotersRecord()));

    public static void main(String[] args) throws Exception {
        ObjectNode root = JSON.createObjectNode();
        root.put("kafka", AppInfoParser.getVersion());
        ArrayNode records = root.putArray("records");
        for (MetadataRecordType type : MetadataRecordType.values()) {
            records.add(record(type.id(), type.newMetadataRecord()));
        }
        ArrayNode control = root.putArray("control");
        for (Map.Entry<Integer, ApiMessage> entry : CONTROL.entrySet()) {
            control.add(record(entry.getKey(), entry.getValue()));
        }
        System.out.println(JSON.writeValueAsString(root));
    }

    private static ObjectNode record(int type, ApiMessage message) throws Exception {
        Class<?> javaClass = message.getClass();
        ObjectNode node = JSON.createObjectNode();
        node.put("type", type);
        node.put("name", javaClass.getSimpleName());
        node.set("defaults", defaults(javaClass));
        ObjectNode versions = node.putObject("versions");
        Schema[] schemas = (Schema[]) javaClass.getField("SCHEMAS").get(null);
        for (int version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
            versions.set(Integer.toString(version), struct(schemas[version], javaClass));
        }
        return node;
    }

    /** What a new instance holds: the values of fields that a version or a writer leaves out. */
    private static ObjectNode defaults(Class<?> javaClass) throws Exception {
        ObjectNode node = JSON.createObjectNode();
        Object fresh = javaClass.getDeclaredConstructor().newInstance();
        Schema[] schemas = (Schema[]) javaClass.getField("SCHEMAS").get(null);
        TreeMap<String, java.lang.reflect.Field> named = new TreeMap<>();
        for (Schema schema : schemas) {
            if (schema != null) {
                for (Field field : fields(schema)) {
                    named.put(field.name, member(javaClass, field.name));
                }
            }
        }
        for (Map.Entry<String, java.lang.reflect.Field> entry : named.entrySet()) {
            node.set(entry.getKey(), JSON.valueToTree(plain(entry.getValue().get(fresh))));
        }
        return node;
    }

    private static Object plain(Object value) {
        if (value == null || value instanceof Number || value instanceof String || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Uuid || value instanceof byte[]) {
            // Only the zero UUID and no bytes occur as defaults: absent.
            return null;
        }
        if (value instanceof Collection<?> collection && collection.isEmpty()) {
            return List.of();
        }
        // A struct within a struct: its own defaults apply only when it is present.
        return null;
    }

    private static List<Field> fields(Schema schema) {
        java.util.ArrayList<Field> all = new java.util.ArrayList<>();
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                all.addAll(tagged.fields().values());
            } else {
                all.add(bound.def);
            }
        }
        return all;
    }

    private static ArrayNode struct(Schema schema, Class<?> javaClass) throws Exception {
        ArrayNode list = JSON.createArrayNode();
        boolean flexible = false;
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                flexible = true;
                for (Map.Entry<Integer, Field> entry : tagged.fields().entrySet()) {
                    list.add(field(entry.getValue(), javaClass).put("tag", entry.getKey()));
                }
            } else {
                list.add(field(bound.def, javaClass));
            }
        }
        if (!flexible) {
            throw new IllegalStateException("a metadata record without tagged fields: " + javaClass);
        }
        return list;
    }

    private static ObjectNode field(Field field, Class<?> javaClass) throws Exception {
        ObjectNode node = JSON.createObjectNode();
        node.put("name", field.name);
        type(node, field.type, javaClass, member(javaClass, field.name).getGenericType());
        return node;
    }

    private static void type(
            ObjectNode node, org.apache.kafka.common.protocol.types.Type type, Class<?> owner, Type javaType)
            throws Exception {
        if (type instanceof CompactArrayOf array) {
            node.put("type", array.isNullable() ? "compact_nullable_array" : "compact_array");
            type(node.putObject("of"), array.arrayElementType().orElseThrow(), owner, element(javaType));
        } else if (type instanceof Schema schema) {
            node.put("type", "struct");
            Class<?> inner = (Class<?>) javaType;
            node.set("defaults", defaults(inner));
            node.set("fields", struct(schema, inner));
        } else if (type instanceof ArrayOf) {
            throw new IllegalStateException("a metadata record with a non-flexible array: " + owner);
        } else {
            node.put("type", type.toString().toLowerCase(java.util.Locale.ROOT));
        }
    }

    /** The element's class: of a List's parameter, or of an ImplicitLinkedHashMultiCollection's. */
    private static Type element(Type javaType) {
        if (javaType instanceof ParameterizedType generic) {
            return generic.getActualTypeArguments()[0];
        }
        return element(((Class<?>) javaType).getGenericSuperclass());
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
