import com.sun.tools.attach.VirtualMachine;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.List;
import java.util.ArrayList;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints metrics of running nodes as an exporter reads them by JMX, one line of JSON for each ID=PID. */
public class NodeMetrics {
    static final long ANSWER_S = 6;
    static final String[][] METRICS = {
        {"active_controllers", "kafka.controller:type=KafkaController,name=ActiveControllerCount", "Value"},
        {"fenced_brokers", "kafka.controller:type=KafkaController,name=FencedBrokerCount", "Value"},
        {"offline_partitions", "kafka.controller:type=KafkaController,name=OfflinePartitionsCount", "Value"},
        {"unclean_elections", "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec", "Count"},
        {"under_replicated", "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions", "Value"},
    };

    public static void main(String[] nodes) throws Exception {
        System.setProperty("sun.tools.attach.attachTimeout", "3000");
        var pool = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        List<Future<String>> answers = new ArrayList<>();
        for (String node : nodes) {
            String[] parts = node.split("=");
            answers.add(pool.submit((Callable<String>) () -> read(parts[1])));
        }
        for (int i = 0; i < nodes.length; i++) {
            String metrics;
            try {
                metrics = answers.get(i).get(ANSWER_S, TimeUnit.SECONDS);
            } catch (Exception problem) {
                metrics = "null";
            }
            System.out.println("{\"node\": " + nodes[i].split("=")[0] + ", \"metrics\": " + metrics + "}");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static String read(String pid) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(pid);
        String address = machine.startLocalManagementAgent();
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            StringBuilder found = new StringBuilder();
            for (String[] metric : METRICS) {
                ObjectName name = new ObjectName(metric[1]);
                if (beans.isRegistered(name)) {
                    Object value = beans.getAttribute(name, metric[2]);
                    String text = value instanceof Number ? value.toString() : "\"" + value + "\"";
                    found.append(found.length() == 0 ? "" : ", ").append("\"" + metric[0] + "\": " + text);
                }
            }
            return "{" + found + "}";
        } finally {
            machine.detach();
        }
    }
}
