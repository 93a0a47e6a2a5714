import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS on loopback until it is killed: a name node and a data node. Arguments: its folder, and the name node's port. */
public class HadoopCluster {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(arguments[0], "hdfs").getAbsolutePath());
        new MiniDFSCluster.Builder(configuration)
            .nameNodePort(Integer.parseInt(arguments[1]))
            .numDataNodes(1)
            .build()
            .waitActive();
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
