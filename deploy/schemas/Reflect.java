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
 * Prints the schema of every metadata record and every KRaft control record as JSON on standard output, read by
 * reflection from the Kafka on the class path.
 *
 * <p>Field order, types and tags are those of each generated class's SCHEMAS; defaults are the values of a new instance.
 */
public final class Reflect {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** KRaft's control records by type (ControlRecordType); older Kafkas know fewer of them. */
    private static final Map<Integer, String> CONTROL =
            new TreeMap<>(
                    Map.of(
                            2, "LeaderChangeMessage",
                            3, "SnapshotHeaderRecord",
                            4, "SnapshotFooterRecord",
                            5, "KRaftVersionRecord",
                            6, "VotersRecord"));

    public static void main(String[] args) throws Exception {
        ObjectNode root = JSON.createObjectNode();
        root.put("kafka", AppInfoParser.getVersion());
        ArrayNode records = root.putArray("records");
        for (MetadataRecordType type : MetadataRecordType.values()) {
            records.add(record(type.id(), type.toString(), type.newMetadataRecord()));
        }
        ArrayNode control = root.putArray("control");
        for (Map.Entry<Integer, String> entry : CONTROL.entrySet()) {
            Class<?> known;
            try {
                known = Class.forName("org.apache.kafka.common.message." + entry.getValue());
            } catch (ClassNotFoundException unknown) {
                continue;
            }
            control.add(record(entry.getKey(), null, (ApiMessage) known.getDeclaredConstructor().newInstance()));
        }
        System.out.println(JSON.writeValueAsString(root));
    }

    private static ObjectNode record(int type, String constant, ApiMessage message) throws Exception {
        Class<?> javaClass = message.getClass();
        ObjectNode node = JSON.createObjectNode();
        node.put("type", type);
        if (constant != null) {
            node.put("constant", constant);
        }
        node.put("name", javaClass.getSimpleName());
        ObjectNode defaults = node.putObject("defaults");
        ObjectNode versions = node.putObject("versions");
        Schema[] schemas = schemas(javaClass);
        for (int version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
            versions.set(Integer.toString(version), struct(schemas[version], javaClass, "", defaults));
        }
        return node;
    }

    private static Schema[] schemas(Class<?> javaClass) throws Exception {
        return (Schema[]) javaClass.getField("SCHEMAS").get(null);
    }

    /** The values of a new instance: the defaults of fields that a version or a writer omits. */
    private static ObjectNode defaults(Class<?> javaClass) throws Exception {
        ObjectNode node = JSON.createObjectNode();
        Object fresh = javaClass.getDeclaredConstructor().newInstance();
        TreeMap<String, java.lang.reflect.Field> named = new TreeMap<>();
        for (Schema schema : schemas(javaClass)) {
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
            // Only the zero UUID and empty bytes occur as defaults; both mean absent.
            return null;
        }
        if (value instanceof Collection<?> collection && collection.isEmpty()) {
            return List.of();
        }
        // A struct within a struct: its own defaults apply only when it is present.
        return null;
    }

    private static List<Field> fields(Schema schema) throws Exception {
        java.util.ArrayList<Field> all = new java.util.ArrayList<>();
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                all.addAll(tagged(tagged).values());
            } else {
                all.add(bound.def);
            }
        }
        return all;
    }

    /**
     * The fields of a struct as its class declares them, which is the order in which Kafka prints them; without the
     * tagged ones it is the order on the wire. Default values go into `defaults` under the struct's path.
     */
    private static ArrayNode struct(Schema schema, Class<?> javaClass, String path, ObjectNode defaults)
            throws Exception {
        defaults.set(path, defaults(javaClass));
        List<String> declared = Arrays.stream(javaClass.getDeclaredFields()).map(member -> member.getName()).toList();
        TreeMap<Integer, ObjectNode> described = new TreeMap<>();
        List<String> wire = new java.util.ArrayList<>();
        boolean flexible = false;
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                flexible = true;
                for (Map.Entry<Integer, Field> entry : tagged(tagged).entrySet()) {
                    Field field = entry.getValue();
                    ObjectNode node = field(field, javaClass, path, defaults).put("tag", entry.getKey());
                    described.put(declared.indexOf(member(javaClass, field.name).getName()), node);
                }
            } else {
                ObjectNode node = field(bound.def, javaClass, path, defaults);
                described.put(declared.indexOf(member(javaClass, bound.def.name).getName()), node);
                wire.add(bound.def.name);
            }
        }
        List<String> untagged =
                described.values().stream().filter(node -> !node.has("tag")).map(node -> node.get("name").asText()).toList();
        if (!flexible || !untagged.equals(wire)) {
            throw new IllegalStateException("a metadata record without tagged fields, or out of order: " + javaClass);
        }
        ArrayNode list = JSON.createArrayNode();
        described.values().forEach(list::add);
        return list;
    }

    /** The tagged fields by tag; before Kafka 3.7 they have no public accessor. */
    @SuppressWarnings("unchecked")
    private static Map<Integer, Field> tagged(TaggedFields tagged) throws Exception {
        java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return (Map<Integer, Field>) fields.get(tagged);
    }

    private static ObjectNode field(Field field, Class<?> javaClass, String path, ObjectNode defaults)
            throws Exception {
        ObjectNode node = JSON.createObjectNode();
        node.put("name", field.name);
        java.lang.reflect.Field member = member(javaClass, field.name);
        if (!member.getName().equals(camel(field.name))) {
            node.put("json", member.getName());
        }
        String inside = path.isEmpty() ? field.name : path + "." + field.name;
        type(node, field.type, javaClass, member.getGenericType(), inside, defaults);
        return node;
    }

    private static void type(
            ObjectNode node,
            org.apache.kafka.common.protocol.types.Type type,
            Class<?> owner,
            Type javaType,
            String path,
            ObjectNode defaults)
            throws Exception {
        if (type instanceof CompactArrayOf array) {
            node.put("type", array.isNullable() ? "compact_nullable_array" : "compact_array");
            type(node.putObject("of"), array.arrayElementType().orElseThrow(), owner, element(javaType), path, defaults);
        } else if (type instanceof Schema schema) {
            node.put("type", "struct");
            node.set("fields", struct(schema, (Class<?>) javaType, path, defaults));
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

    /** The usual name of a member, and so of its key in Kafka's JSON. */
    private static String camel(String snake) {
        StringBuilder name = new StringBuilder();
        for (String part : snake.split("_")) {
            name.append(name.isEmpty() ? part : Character.toUpperCase(part.charAt(0)) + part.substring(1));
        }
        return name.toString();
    }
}
