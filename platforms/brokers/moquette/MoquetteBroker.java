import io.moquette.broker.Server;
import io.moquette.broker.config.MemoryConfig;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

/**
 * Moquette: {@code MoquetteBroker FOLDER PORT [WEBSOCKET_PORT [TLS_PORT CERTIFICATE KEY]]}. The system property {@code persistence} is
 * {@code true} where it keeps sessions and their messages in a file of the folder, else it keeps everything in memory.
 */
public final class MoquetteBroker {
  private MoquetteBroker() {
  }

  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    settings.setProperty("host", "127.0.0.1");
    settings.setProperty("port", arguments[1]);
    settings.setProperty("allow_anonymous", "true");
    settings.setProperty("persistence_enabled", System.getProperty("persistence", "false"));
    // So often, in seconds, what is to be kept goes into the file; the default is 30.
    settings.setProperty("autosave_interval", "1");
    settings.setProperty("telemetry_enabled", "false");
    settings.setProperty("data_path", arguments[0]);
    // The default is 8 KiB.
    settings.setProperty("netty.mqtt.message_size", "1100000");
    // What waits for a thread of sessions; the default is 1,024, and what is beyond that is dropped.
    settings.setProperty("session_queue_size", "1048576");
    // Connections that wait to be accepted; the default is 128.
    settings.setProperty("netty.so_backlog", "4096");
    // Acknowledgements leave at once.
    settings.setProperty("immediate_buffer_flush", "true");
    if (arguments.length > 2) {
      settings.setProperty("websocket_port", arguments[2]);
    }
    if (arguments.length > 5) {
      Path store = Path.of(arguments[0]).resolve("keys.jks");
      Keys.keep(Path.of(arguments[4]), Path.of(arguments[5]), store);
      settings.setProperty("ssl_port", arguments[3]);
      settings.setProperty("jks_path", store.toString());
      settings.setProperty("key_store_password", Keys.PASSWORD);
      settings.setProperty("key_manager_password", Keys.PASSWORD);
    }
    Server server = new Server();
    server.startServer(new MemoryConfig(settings));
    Runtime.getRuntime().addShutdownHook(new Thread(server::stopServer));
    new CountDownLatch(1).await();
  }
}
