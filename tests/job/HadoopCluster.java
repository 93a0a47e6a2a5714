import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS on loopback, and YARN if a third argument is given, until it is killed. Arguments: its folder, the name node's
 * port, and the folder for YARN's configuration.
 */
public class HadoopCluster {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration configuration = new YarnConfiguration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(arguments[0], "hdfs").getAbsolutePath());
        new MiniDFSCluster.Builder(configuration)
            .nameNodePort(Integer.parseInt(arguments[1]))
            .numDataNodes(1)
            .build()
            .waitActive();
        if (arguments.length > 2) {
            configuration.set("fs.defaultFS", "hdfs://127.0.0.1:" + arguments[1]);
            startYarn(configuration, new File(arguments[2]));
        }
        System.out.println("ready");
        Thread.currentThread().join();
    }

    private static void startYarn(YarnConfiguration configuration, File folder) throws Exception {
        configuration.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        configuration.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        configuration.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
        configuration.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        configuration.setInt("yarn.nodemanager.resource.memory-mb", 4096);
        configuration.setInt("yarn.nodemanager.resource.cpu-vcores", 4);
        configuration.set("yarn.scheduler.capacity.root.queues", "default");
        configuration.set("yarn.scheduler.capacity.root.default.capacity", "100");
        configuration.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
        MiniYARNCluster yarn = new MiniYARNCluster("yarn", 1, 1, 1);
        yarn.init(configuration);
        yarn.start();
        Configuration written = new Configuration(yarn.getConfig());
        // The small data node has set it to a class that Spark does not have.
        written.unset("net.topology.node.switch.mapping.impl");
        folder.mkdirs();
        for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {
            try (OutputStream output = new FileOutputStream(new File(folder, name))) {
                written.writeXml(output);
            }
        }
    }
}
