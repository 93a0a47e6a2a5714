package kraftwatch;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.Constants;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;

/**
 * Spark's checkpoint in S3, with one request for each file that is written, looked for or deleted.
 *
 * <p>An object appears when its upload is complete, so that Spark's way, to write a file under another name and to rename
 * it, only costs: S3 has no rename. A file that must not be replaced is written with `If-None-Match: *`, so that of two
 * queries on one checkpoint only one can write the next entry of a log. (Spark's own
 * AbortableStreamBasedCheckpointFileManager logs an upload that failed, or whose file exists, and continues.)
 */
public final class S3CheckpointFiles extends FileSystemBasedCheckpointFileManager {
  private static final Set<String> LOGS = Set.of("offsets", "commits");
  /** In an object's own metadata: which attempt has written it. */
  private static final String WRITER = "writer";

  public S3CheckpointFiles(Path path, Configuration settings) {
    super(path, settings);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    try {
      FSDataOutputStreamBuilder<?, ?> file = fs().createFile(path).recursive().overwrite(overwrite);
      // Without a check before that the path is no folder.
      file = file.must(Constants.FS_S3A_CREATE_PERFORMANCE, true);
      if (!overwrite && fs().hasPathCapability(path, CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)) {
        file = file.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
      }
      String writer = UUID.randomUUID().toString();
      return new Upload(path, file.must(Constants.FS_S3A_CREATE_HEADER + "." + WRITER, writer).build(), writer);
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  /** Asks whether the entry of a log exists, which is no folder, without looking for files below it. */
  @Override
  public boolean exists(Path path) {
    boolean isEntry = LOGS.contains(path.getParent().getName()) && path.getName().chars().allMatch(Character::isDigit);
    if (!isEntry) {
      return super.exists(path);
    }
    try {
      head(path);
      return true;
    } catch (FileNotFoundException missing) {
      return false;
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  /** Deletes a file, and no folder: Spark deletes none of a checkpoint. A missing file is no error. */
  @Override
  public void delete(Path path) {
    try (BulkDelete files = fs().createBulkDelete(path.getParent())) {
      List<Map.Entry<Path, String>> failed = files.bulkDelete(List.of(path));
      if (!failed.isEmpty()) {
        throw new IOException(path + " is not deleted: " + failed.get(0).getValue());
      }
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  private HeadObjectResponse head(Path path) throws IOException {
    return ((S3AFileSystem) fs()).getS3AInternals().getObjectMetadata(path);
  }

  private final class Upload extends CancellableFSDataOutputStream {
    private final Path path;
    private final FSDataOutputStream file;
    private final String writer;
    private boolean ended;

    Upload(Path path, FSDataOutputStream file, String writer) {
      super(file);
      this.path = path;
      this.file = file;
      this.writer = writer;
    }

    @Override
    public synchronized void close() throws IOException {
      if (!ended) {
        ended = true;
        try {
          file.close();
        } catch (RemoteFileChangedException exists) {
          // A request whose answer was lost is sent again, and then finds the file that it has written.
          if (!writer.equals(head(path).metadata().get(WRITER))) {
            // Spark then says that another query uses the checkpoint.
            throw (IOException) new FileAlreadyExistsException(path + " exists").initCause(exists);
          }
        }
      }
    }

    @Override
    public synchronized void cancel() {
      if (!ended) {
        ended = true;
        file.abort();
      }
    }
  }
}
