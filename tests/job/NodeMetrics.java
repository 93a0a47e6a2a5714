import com.sun.tools.attach.VirtualMachine;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.Map;
import java.util.TreeMap;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints metrics of running nodes as an exporter reads them by JMX: a line of JSON for each ID=PID that answers. */
public class NodeMetrics {
    static final long ANSWER_S = 6;
    static final Map<String, String> METRICS = Map.of(
        "active_controllers", "kafka.controller:type=KafkaController,name=ActiveControllerCount",
        "fenced_brokers", "kafka.controller:type=KafkaController,name=FencedBrokerCount",
        "offline_partitions", "kafka.controller:type=KafkaController,name=OfflinePartitionsCount",
        "unclean_elections", "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        "under_replicated", "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions");

    public static void main(String[] nodes) throws Exception {
        System.setProperty("sun.tools.attach.attachTimeout", "3000");
        var pool = Executors.newCachedThreadPool();
        for (String node : nodes) {
            String[] parts = node.split("=");
            pool.submit(() -> print(parts[0], parts[1]));
        }
        pool.shutdown();
        pool.awaitTermination(ANSWER_S, TimeUnit.SECONDS);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static Void print(String node, String pid) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(pid);
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(machine.startLocalManagementAgent()))) {
            var beans = connector.getMBeanServerConnection();
            Map<String, String> found = new TreeMap<>();
            for (var metric : METRICS.entrySet()) {
                ObjectName name = new ObjectName(metric.getValue());
                if (beans.isRegistered(name)) {
                    String attribute = metric.getKey().equals("unclean_elections") ? "Count" : "Value";
                    found.put("\"" + metric.getKey() + "\"", beans.getAttribute(name, attribute).toString());
                }
            }
            String metrics = found.toString().replace("\"=", "\": ");
            System.out.println("{\"node\": " + node + ", \"metrics\": " + metrics + "}");
        } finally {
            machine.detach();
        }
        return null;
    }
}
